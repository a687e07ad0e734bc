package events

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// often is more than how many times a list must be asked for in vain until it is not read again.
const often = 3

// ifNoneMatch has a request carry lines of If-None-Match.
func ifNoneMatch(lines ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header["If-None-Match"] = lines }
}

func TestListEventsETag(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "a", servicetest.When)
		alice.Create("plaza", "b", servicetest.When)
		res := alice.Get(servicetest.Plaza).HasHeader("Cache-Control", "private, no-cache").HasHeader("Vary", "Cookie, Origin, Accept-Encoding")
		tag, body := res.Header.Get("ETag"), res.Body
		opaque := strings.TrimPrefix(tag, "W/")
		if !strings.HasPrefix(tag, `W/"`) || len(tag) < 12 {
			t.Fatalf("ETag %s", tag)
		}
		bob.Get(servicetest.Plaza).HasHeader("ETag", tag) // the same body, whoever asks

		for _, lines := range [][]string{
			{tag}, {opaque}, {`"x", ` + tag}, {tag + `,"x"`}, {`W/"x",` + tag + `,W/"y"`}, {"*"}, {" " + tag + " "},
			{`"x"`, tag}, {tag, `"x"`}, {"", tag}, {`"x"`, "*"}, {"\xff%zz", tag},
		} {
			alice.Get(servicetest.Plaza, ifNoneMatch(lines...)).Is(304, "").HasHeader("ETag", tag).HasHeader("Link", "").
				HasHeader("Cache-Control", "private, no-cache").HasHeader("Vary", "Cookie, Origin, Accept-Encoding").SetsNoCookie()
		}
		for _, lines := range [][]string{
			{`"x"`}, {`W/"x"`}, {strings.Trim(opaque, `"`)}, {strings.ToLower(tag)}, {`"` + tag + `"`}, {`""`}, {`x`},
			{""}, {"", ""}, {`"x"`, `"y"`}, {tag[:9], tag[9:]}, {"\xff%zz"}, {"%22x%22"},
		} {
			alice.Get(servicetest.Plaza, ifNoneMatch(lines...)).Is(200, body).HasHeader("ETag", tag)
		}

		// The tag also stands for the Link.
		page := alice.Get(servicetest.Plaza + "?limit=1")
		pageTag, link := page.Header.Get("ETag"), page.Header.Get("Link")
		alice.Get(servicetest.Plaza+"?limit=1", servicetest.IfNoneMatch(pageTag)).Is(304, "").HasHeader("ETag", pageTag).HasHeader("Link", link)
		whole := alice.Get(servicetest.Plaza + "?limit=2")
		whole.Is(200, body).HasHeader("ETag", tag).HasHeader("Link", "")
		third := alice.Create("plaza", "c", "2040-01-01T00:00:00Z")
		after := alice.Get(servicetest.Plaza+"?limit=2", servicetest.IfNoneMatch(tag)).Is(200, body) // the same body, but more follows
		if after.Header.Get("Link") == "" || after.Header.Get("ETag") == tag {
			t.Errorf("a new Link needs a new ETag: %v", after.Header)
		}
		s.Database.Exec("DELETE FROM events WHERE id = ?", third)
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")

		// Joining changes it, leaving brings it back.
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		if joined := alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)); joined.Status != 200 || joined.Header.Get("ETag") == tag {
			t.Errorf("after a join: %d %s", joined.Status, joined.Header.Get("ETag"))
		}
		bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		// Requests that fail do not get 304.
		s.Client().Get(servicetest.Plaza, servicetest.IfNoneMatch("*")).IsError(401, "no_token")
		alice.Get(servicetest.Plaza+"?limit=0", servicetest.IfNoneMatch("*")).IsError(400, "validation_failed", "limit")
	})
}

// ETags need a key: whoever has another cannot compute them, and all instances with the same agree.
func TestListEventsETagNeedsTheKey(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		s := servicetest.Start(t, db)
		same := s.NewInstance()
		other := s.NewInstance(func(o *servicetest.Options) {
			o.Keys = [][]byte{[]byte("another key of 32 bytes or more, for other ETags")}
		})
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", servicetest.When)
		res := alice.Get(servicetest.Plaza)
		tag := res.Header.Get("ETag")
		if opaque := strings.TrimSuffix(strings.TrimPrefix(tag, `W/"`), `"`); len(opaque) != 22 || strings.Trim(opaque, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("ETag %s", tag)
		}
		alice.On(same).Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag)
		stranger := other.SignIn("bob")
		if got := stranger.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, res.Body).Header.Get("ETag"); got == tag {
			t.Errorf("two keys give one ETag %s", tag)
		}
	})
}

// Whoever has an old list gets the new one as if they had none, in every shape of list; whoever has the list gets 304.
func TestListEventsConditional(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		servicetest.Crowd(t, s, "plaza", 1, 0, 255, 256, 257, 0, 600, 3)
		for i := range 300 { // more than one batch, and texts of all kinds
			servicetest.AddEvent(s, "plaza", i, fmt.Sprintf("%d \"é\"\\", i), strings.Repeat("d\n", i%3))
		}
		for _, query := range []string{"", "?limit=5", "?limit=250", "?limit=308", "?from=2031-01-01T00:00:00Z", "?to=2031-01-01T00:00:00Z", "?from=2050-01-01T00:00:00Z"} {
			plain := alice.Get(servicetest.Plaza + query).Has(200)
			tag, link := plain.Header.Get("ETag"), plain.Header.Get("Link")
			alice.Get(servicetest.Plaza+query, servicetest.IfNoneMatch(`W/"0123456789abcdef"`)).Is(200, plain.Body).HasHeader("ETag", tag).HasHeader("Link", link)
			for range often {
				alice.Get(servicetest.Plaza+query, servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag).HasHeader("Link", link)
			}
		}
	})
}

// Of those who share a query, some have the list, some an old one, some none, and some no session any more.
func TestListEventsConditionalShared(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob, ghost := s.SignIn("alice"), s.SignIn("bob"), s.SignIn("ghost")
		servicetest.AddEvents(s, "plaza", 0, 300, 2032, "") // which take several statements
		list := alice.Get(servicetest.Plaza)
		want, tag := list.Body, list.Header.Get("ETag")
		gone := servicetest.Cookies("token=" + ghost.Session.Token)
		ghost.Post("/sign-out", "").Is(204, "")
		// Without those who have none a shared query is a conditional one.
		for _, kinds := range []int{2, 3, 4} {
			servicetest.AtOnce(32*kinds, func(i int) {
				switch i % kinds {
				case 0:
					alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag)
				case 1:
					s.Client().Get(servicetest.Plaza, gone, servicetest.IfNoneMatch(tag)).IsError(401, "invalid_token")
				case 2:
					bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(`W/"0123456789abcdef"`)).Is(200, want).HasHeader("ETag", tag)
				case 3:
					bob.Get(servicetest.Plaza).Is(200, want).HasHeader("ETag", tag)
				}
			})
		}
	})
}

// A list that is not read again is still for those alone whose session is not revoked.
func TestUnchangedListNeedsSession(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		alice.Create("plaza", "a", servicetest.When)
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		unchanged := func() float64 {
			return servicetest.Metric(t, s, `worldevents_list_responses_total{how="unchanged_cached"}`)
		}
		for range often {
			alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		}
		before := unchanged()
		s.Database.Exec("UPDATE sessions SET revoked_at = ? WHERE id = ?", time.Now().UTC(), alice.Session.SessionID)
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).IsError(401, "invalid_token")
		bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		if n := unchanged() - before; before == 0 || n != 1 {
			t.Errorf("%v lists were not read before, and %v afterwards", before, n)
		}
	})
}

// Writes beside readings of a list are in the next one, whatever is known of those that were read meanwhile.
func TestListEventsBesideWrites(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, others := s.SignIn("alice"), []*servicetest.Client{s.SignIn("bob"), s.SignIn("carol")}
		id := alice.Create("plaza", "a", servicetest.When)
		for i := range 60 {
			servicetest.AtOnce(6, func(n int) {
				switch {
				case n >= len(others):
					alice.Get(servicetest.Plaza)
				case i%2 == 0:
					others[n].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
				default:
					others[n].Delete("/api/event/"+id).Is(200, servicetest.Success)
				}
			})
			want := 1 + len(others)*(1-i%2)
			servicetest.Is(t, len(servicetest.Usernames(t, alice.Get(servicetest.Plaza).Body)[0]), want, "attendees after the writes")
		}
	}, func(o *servicetest.Options) { o.WriteRate = 0 })
}
