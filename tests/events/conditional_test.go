package events

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
			plain := alice.Get(servicetest.Plaza + query)
			tag := plain.Header.Get("ETag")
			if plain.Status != 200 || tag == "" {
				t.Fatalf("%s: %d, ETag %q", query, plain.Status, tag)
			}
			link := plain.Header.Get("Link")
			alice.Get(servicetest.Plaza+query, servicetest.IfNoneMatch(`W/"0123456789abcdef"`)).Is(200, plain.Body).HasHeader("ETag", tag).HasHeader("Link", link)
			for range often {
				alice.Get(servicetest.Plaza+query, servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag).HasHeader("Link", link)
			}
		}
	})
}

// Events never change, except by the hand of an operator; then, too, nobody keeps the old list.
func TestListEventsConditionalAfterEdits(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "a", servicetest.When)
		other := alice.Create("plaza", "b", servicetest.When)
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		for _, edit := range []struct {
			set          string
			value        any
			name, detail string
			when         string
		}{
			{"name", "Ab", "Ab", "", servicetest.When},
			{"description", "c", "Ab", "c", servicetest.When},
			{"name", "A", "A", "c", servicetest.When},
			{"description", "bc", "A", "bc", servicetest.When},
			{"description", "c", "A", "c", servicetest.When},
			{"description", "bc", "A", "bc", servicetest.When},
			{"scheduled_at", servicetest.At(2029), "A", "bc", "2029-01-01T00:00:00.000Z"},
		} {
			s.Database.Exec("UPDATE events SET "+edit.set+" = ? WHERE id = ?", edit.value, id)
			want := servicetest.List(servicetest.Listed(id, edit.name, edit.detail, edit.when, "alice"), servicetest.Listed(other, "b", "", servicetest.When, "alice"))
			res := alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, want)
			tag = res.Header.Get("ETag")
			alice.Get(servicetest.Plaza).Is(200, want).HasHeader("ETag", tag)
			for range often {
				alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
			}
		}
	})
}

// A list that has been the same for long is noticed to change, and to change back.
func TestListEventsConditionalAfterRSVPs(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		first := alice.Create("plaza", "a", servicetest.When)
		second := alice.Create("plaza", "b", servicetest.When)
		tags := map[string]bool{}
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		for _, step := range []struct {
			user         *servicetest.Client
			method, path string
			names        [2][]string
		}{
			{bob, "POST", "/api/event/join/" + first, [2][]string{{"alice", "bob"}, {"alice"}}},
			{alice, "DELETE", "/api/event/" + first, [2][]string{{"bob"}, {"alice"}}},
			{alice, "POST", "/api/event/join/" + first, [2][]string{{"bob", "alice"}, {"alice"}}},
			{bob, "DELETE", "/api/event/" + first, [2][]string{{"alice"}, {"alice"}}},
			{bob, "POST", "/api/event/join/" + second, [2][]string{{"alice"}, {"alice", "bob"}}},
			{alice, "DELETE", "/api/event/" + first, [2][]string{{}, {"alice", "bob"}}},
		} {
			for range often {
				alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag)
			}
			tags[tag] = true
			s.Clock.Advance(time.Second)
			step.user.Do(step.method, step.path, "").Is(200, servicetest.Success)
			tag = alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, servicetest.List(
				servicetest.Listed(first, "a", "", servicetest.When, step.names[0]...), servicetest.Listed(second, "b", "", servicetest.When, step.names[1]...))).Header.Get("ETag")
		}
		if len(tags) != 5 { // alice alone came back
			t.Errorf("%d tags", len(tags))
		}
		s.Database.Exec("DELETE FROM users WHERE username = 'alice'")
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).IsError(401, "invalid_token")
	})
}

// While events come, go and are edited by hand, every list is of one moment as far as anybody can tell: no event
// twice, none with the texts of another or of two times.
func TestListEventsConditionalWhileEventsChange(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		add := func(i int) { servicetest.AddEvent(s, "plaza", i, servicetest.IDOf(i)+" 0", "0") }
		const events = 50
		for i := range events {
			add(i)
		}
		var stop atomic.Bool
		var wait sync.WaitGroup
		wait.Go(func() {
			for round := 1; !stop.Load(); round++ {
				i := round * 7 % events
				s.Database.Exec("UPDATE events SET name = ?, description = ? WHERE id = ?", fmt.Sprint(servicetest.IDOf(i), " ", round), fmt.Sprint(round), servicetest.IDOf(i))
				i = round * 11 % events
				s.Database.Exec("DELETE FROM events WHERE id = ?", servicetest.IDOf(i))
				add(i)
			}
		})
		var bodies sync.Map // by ETag
		servicetest.AtOnce(150, func(i int) {
			// Different parameters are not shared.
			res := alice.Get(fmt.Sprintf("%s?limit=%d", servicetest.Plaza, 100+i%8), servicetest.IfNoneMatch(`W/"0123456789abcdef"`))
			if body, known := bodies.LoadOrStore(res.Header.Get("ETag"), res.Body); known && body != res.Body {
				t.Errorf("two lists have the ETag %s", res.Header.Get("ETag"))
			}
			var list struct {
				Events []struct{ ID, Name, Description string }
			}
			if err := json.Unmarshal([]byte(res.Body), &list); res.Status != 200 || err != nil || len(list.Events) < events-1 {
				t.Errorf("%d, %d events, %v", res.Status, len(list.Events), err)
			}
			seen := make(map[string]bool)
			for _, e := range list.Events {
				if e.Name != e.ID+" "+e.Description || seen[e.ID] {
					t.Errorf("%+v", e)
				}
				seen[e.ID] = true
			}
		})
		stop.Store(true)
		wait.Wait()
	})
}

// Of those who share a query, some have the list, some an old one, some none.
func TestListEventsConditionalShared(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob, ghost := s.SignIn("alice"), s.SignIn("bob"), s.SignIn("ghost")
		id := alice.Create("plaza", "n", servicetest.When)
		want := servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "alice"))
		tag := alice.Get(servicetest.Plaza).Is(200, want).Header.Get("ETag")
		s.Database.Exec("DELETE FROM users WHERE username = 'ghost'")
		// Without those who have none a shared query is a conditional one.
		for _, kinds := range []int{2, 3, 4} {
			servicetest.AtOnce(64*kinds, func(i int) {
				switch i % kinds {
				case 0:
					alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag)
				case 1:
					ghost.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).IsError(401, "invalid_token")
				case 2:
					bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(`W/"0123456789abcdef"`)).Is(200, want).HasHeader("ETag", tag)
				case 3:
					bob.Get(servicetest.Plaza).Is(200, want).HasHeader("ETag", tag)
				}
			})
		}
	})
}

// A change far down in a large event, or far down a long list, is noticed like any other.
func TestListEventsConditionalFarDown(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		servicetest.Crowd(t, s, "one", 600)
		for i := range 300 {
			servicetest.AddEvent(s, "many", i, "n", "")
		}
		for world, change := range map[string]string{
			"one":  "DELETE FROM rsvps WHERE username LIKE '% 599'",
			"many": "DELETE FROM events WHERE id = '" + servicetest.IDOf(299) + "'",
		} {
			s.Run(t, world, func(t *testing.T) {
				path := "/api/event/" + world
				tag := alice.Get(path).Header.Get("ETag")
				for range often {
					alice.Get(path, servicetest.IfNoneMatch(tag)).Is(304, "")
				}
				s.Database.Exec(change)
				after := alice.Get(path, servicetest.IfNoneMatch(tag))
				if after.Status != 200 || after.Header.Get("ETag") == tag {
					t.Errorf("%d after a change", after.Status)
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
			if got := servicetest.Usernames(t, alice.Get(servicetest.Plaza).Body)[0]; len(got) != want {
				t.Fatalf("after the writes: %v", got)
			}
		}
	}, func(o *servicetest.Options) { o.WriteRate = 0 })
}
