package provider

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Whoever is blocked, or removed for good, does not sign in with the identity provider, and is told so.
func TestBlockedSignIn(t *testing.T) {
	p := newProvider(t)
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		signIn := func() *servicetest.Response {
			c := s.Client()
			return c.Get(p.consent(begin(c, ""), called("7", "alice")).RequestURI())
		}
		signIn().Is(303, "")
		ctx := context.Background()
		refused := func() {
			t.Helper()
			res := signIn()
			res.IsError(403, "user_blocked")
			servicetest.Lacks(t, strings.Join(res.Header.Values("Set-Cookie"), "\n"), "oken=")
			c := s.Client()
			page := c.Get(p.consent(begin(c, ""), called("7", "alice")).RequestURI(), servicetest.Header("Accept", "text/html"))
			if page.Status != 403 || !strings.Contains(page.Body, "This account is blocked") {
				t.Errorf("%d %s", page.Status, page.Body)
			}
		}
		if _, _, err := s.Store.BlockUser(ctx, models.Who{Username: "alice"}); err != nil {
			t.Fatal(err)
		}
		refused()
		if _, _, err := s.Store.UnblockUser(ctx, models.Who{Username: "alice"}); err != nil {
			t.Fatal(err)
		}
		signIn().Is(303, "")

		removed, err := s.Store.RemoveUser(ctx, models.Who{Username: "alice"}, models.UserRemoval{Block: true})
		if err != nil || removed.Identity == nil {
			t.Fatal(removed, err)
		}
		refused()
		servicetest.Is(t, s.Database.Count("users"), 0, "users")
		c := s.Client() // another subject is somebody else
		c.Get(p.consent(begin(c, ""), called("8", "alice")).RequestURI()).Is(303, "")
		in := models.SignIn{RefreshToken: models.RefreshToken{Handle: models.Hash{1}}}
		if _, err := s.Store.SignInExternal(ctx, "https://other.example.org", "7", "bob", in); err != nil { // and so is that of another issuer
			t.Error(err)
		}
		program := servicetest.NewProgram(t, "DATABASE_URL="+s.Database.URL)
		program.MustRun("user", "unblock", "--identity", hex.EncodeToString(removed.Identity[:]))
		if _, _, status := program.Run("user", "unblock", "--identity", hex.EncodeToString(removed.Identity[:])); status != 1 {
			t.Error("unblocked what was not blocked")
		}
		signIn().Is(303, "")

		// Removed without more, they come back as somebody new.
		servicetest.Must(s.Store.RemoveUser(ctx, models.Who{Username: "alice-2"}, models.UserRemoval{}))(t)
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
			done := make(chan bool)
			var started = make(chan bool, 8)
			for i := range 8 {
				go func() {
					in := models.SignIn{RefreshToken: models.RefreshToken{Handle: models.Hash{byte(round), byte(i), 1}}}
					for n := range 4 {
						in.Handle[3] = byte(n)
						s.Store.SignInExternal(ctx, "https://login.example.org", subject, subject+"y", in)
						if n == 0 {
							started <- true
						}
					}
					done <- true
				}()
			}
			<-started
			name := ""
			s.Database.Read("SELECT username FROM users WHERE subject = ?", []any{subject}, &name)
			if _, err := s.Store.RemoveUser(ctx, models.Who{Username: name}, models.UserRemoval{Block: true}); err != nil {
				t.Error(err)
			}
			for range 8 {
				<-done
			}
			servicetest.Is(t, s.Database.Count("users WHERE subject = ?", subject), 0, "users came back")
		}
		servicetest.Is(t, s.Database.Count("sessions"), 0, "sessions")
	}, func(o *servicetest.Options) { o.DBMaxConns = 10 })
}
