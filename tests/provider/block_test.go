package provider

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"testing"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Whoever is blocked, or removed for good, does not sign in with the identity provider, and is told so.
func TestBlockedSignIn(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		signIn := func() *servicetest.Response { return p.signIn(s.Client(), called("7", "alice"), "") }
		refused := func() {
			t.Helper()
			res := signIn().IsError(403, "user_blocked")
			servicetest.Lacks(t, strings.Join(res.Header.Values("Set-Cookie"), "\n"), "oken=")
			c := s.Client()
			page := c.Get(p.consent(begin(c, ""), called("7", "alice")).RequestURI(), servicetest.Header("Accept", "text/html"))
			servicetest.Contains(t, page.Has(403).Body, "This account is blocked")
		}
		program := servicetest.NewProgram(t, "DATABASE_URL="+s.Database.URL)
		signIn().Is(303, "")
		program.MustRun("user", "block", "alice")
		refused()
		program.MustRun("user", "unblock", "alice")
		signIn().Is(303, "")

		removed := servicetest.Must(s.Store.RemoveUser(t.Context(), models.Who{Username: "alice"}, models.UserRemoval{Block: true}))(t)
		refused()
		servicetest.Is(t, s.Database.Count("users"), 0, "users")
		p.signIn(s.Client(), called("8", "alice"), "").Is(303, "") // another subject is somebody else
		in := models.SignIn{RefreshToken: models.RefreshToken{Handle: models.Hash{1}}}
		servicetest.Must(s.Store.SignInExternal(t.Context(), "https://other.example.org", "7", "bob", in))(t) // and so is that of another issuer
		identity := hex.EncodeToString(removed.Identity[:])
		program.MustRun("user", "unblock", "--identity", identity)
		program.Fails("", "user", "unblock", "--identity", identity) // it is not blocked
		signIn().Is(303, "")

		// Removed without more, they come back as somebody new.
		servicetest.Must(s.Store.RemoveUser(t.Context(), models.Who{Username: "alice-2"}, models.UserRemoval{}))(t)
		signIn().Is(303, "")
		servicetest.Is(t, s.Database.Count("users"), 3, "users")
		p.checkLog(s)
	}, p.options)
}

// However many sign-ins are under way, none outlives the removal for good.
func TestRemoveRace(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		ctx := context.Background()
		for round := range 10 {
			subject := strings.Repeat("x", round+1)
			var all sync.WaitGroup
			started := make(chan bool, 8)
			for i := range 8 {
				all.Go(func() {
					in := models.SignIn{RefreshToken: models.RefreshToken{Handle: models.Hash{byte(round), byte(i), 1}}}
					for n := range 4 {
						in.Handle[3] = byte(n)
						s.Store.SignInExternal(ctx, "https://login.example.org", subject, subject+"y", in)
						if n == 0 {
							started <- true
						}
					}
				})
			}
			<-started
			name := ""
			s.Database.Read("SELECT username FROM users WHERE subject = ?", []any{subject}, &name)
			servicetest.Must(s.Store.RemoveUser(ctx, models.Who{Username: name}, models.UserRemoval{Block: true}))(t)
			all.Wait()
			servicetest.Is(t, s.Database.Count("users WHERE subject = ?", subject), 0, "users came back")
		}
		servicetest.Is(t, s.Database.Count("sessions"), 0, "sessions")
	}, func(o *servicetest.Options) { o.DBMaxConns = 10 })
}
