package events

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestListEventsOrder(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		// Texts of different length and offset must not order as text.
		var want []string
		for _, at := range []string{
			"1970-01-01T00:00:00Z", "1999-12-31T23:59:59.999Z", "2030-01-02T03:04:05Z", "2030-01-02T03:04:05.001Z", "2030-01-02T03:04:05.01Z",
			"2030-01-02T03:04:05.1Z", "2030-01-02T03:04:05.12Z", "2030-01-02T17:04:05.9+14:00", "2030-01-02T03:04:06Z", "2030-01-02T03:04:06Z", "9999-12-31T23:59:59.999Z",
		} {
			want = append(want, alice.Create("reversed", at, at))
		}
		for _, at := range slices.Backward([]string{"2030-01-01T00:00:00Z", "2030-01-01T00:00:00.5Z", "2030-01-01T00:00:00.25Z"}) {
			alice.Create("plaza", at, at)
		}
		servicetest.Is(t, servicetest.EventIDs(t, alice.Get("/api/event/reversed").Body), want, "ids")
		servicetest.Is(t, servicetest.EventNames(t, alice.Get(servicetest.Plaza).Body),
			[]string{"2030-01-01T00:00:00Z", "2030-01-01T00:00:00.25Z", "2030-01-01T00:00:00.5Z"}, "names")
	})
}

// RSVPs are listed by the time of joining, then by who has been a user for longer, never by name.
func TestListEventsRSVPOrder(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s.Clock.Freeze(begin)
		users := []*servicetest.Client{s.SignIn("zoe"), s.SignIn("yan"), s.SignIn("xia"), s.SignIn("Alice"), s.SignIn("alice")}
		id := users[2].Create("plaza", "n", servicetest.When)
		s.Clock.Freeze(begin.Add(20 * time.Microsecond))
		users[4].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Clock.Freeze(begin.Add(3 * time.Microsecond)) // 3 < 20, though not as text
		users[3].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Clock.Freeze(begin.Add(time.Second))
		users[1].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		users[0].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		users[0].Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "xia", "Alice", "alice", "zoe", "yan")))
	})
}

// The list is one text on both databases, whatever is in it.
func TestListEventsEscapes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		name := `"\/<b>&amp;'; -- $1 ?{}[],:` + "\u2028\u2029\ufeff\u202eé😀\U0010ffff\ufffd\u00ad"
		user := s.SignIn(name)
		second := s.SignIn(`\`)
		third := s.SignIn(`a,"b"],"c":[`)
		id := user.Create("plaza", name, servicetest.When)
		s.Clock.Advance(time.Second)
		second.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Clock.Advance(time.Second)
		third.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		user.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, name, "", servicetest.When, name, `\`, `a,"b"],"c":[`)))
	})
}

// A text that looks like a time is still the text that it was.
func TestListEventsTextsLikeTimes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for i, text := range []string{"2030-01-01", "2030-01-01 02:03", "2030-01-01T00:00:00Z", "2030-01-01 00:00:00+00:00", "2030-01-01 00:00:00 +0000 UTC m=+1"} {
			user, world := s.SignIn(text), fmt.Sprint("/api/event/", i)
			id := user.Create(fmt.Sprint(i), text, servicetest.When)
			s.Database.Exec("UPDATE events SET description = ? WHERE name = ?", text, text)
			for range 2 { // as the whole list, and as a page
				user.Get(world).Is(200, servicetest.List(servicetest.Listed(id, text, text, servicetest.When, text)))
				world += "?limit=1"
			}
		}
	})
}

func TestListEventsFromTo(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		for name, at := range map[string]string{"a": "1970-01-01T00:00:00Z", "b": "2030-01-01T00:00:00.000Z", "c": "2030-01-01T00:00:00.001Z", "d": "2030-01-01T00:00:00.002Z", "e": "9999-12-31T23:59:59.999Z"} {
			alice.Create("plaza", name, at)
		}
		for _, test := range []struct{ from, to, want string }{
			{"", "", "abcde"}, {"2030-01-01T00:00:00.001Z", "", "cde"}, {"", "2030-01-01T00:00:00.001Z", "ab"},
			{"2030-01-01T00:00:00Z", "2030-01-01T00:00:00.002Z", "bc"}, {"2030-01-01T00:00:00.001Z", "2030-01-01T00:00:00.001Z", ""},
			{"2030-01-01T00:00:00.002Z", "2030-01-01T00:00:00.001Z", ""}, {"2030-01-01T14:00:00.001+14:00", "2029-12-31T10:00:00.002-14:00", "c"},
			{"2030-01-01t00:00:00.001z", "2030-01-01t00:00:00.002z", "c"}, {"1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "abcd"},
			// Digits beyond the millisecond round up.
			{"2030-01-01T00:00:00.0001Z", "", "cde"}, {"2030-01-01T00:00:00.000000001Z", "", "cde"}, {"2030-01-01T00:00:00.0000000000000000001Z", "", "cde"},
			{"2030-01-01T00:00:00.0009999999999999999Z", "", "cde"}, {"2030-01-01T00:00:00.0000000000000000000Z", "", "bcde"},
			{"", "2030-01-01T00:00:00.0001Z", "ab"}, {"", "2030-01-01T00:00:00.0010000000000000001Z", "abc"}, {"", "2029-12-31T23:59:59.9999999Z", "a"},
			{"2030-01-01T00:00:00.0011Z", "2030-01-01T00:00:00.0019Z", ""}, {"9999-12-31T23:59:59.999Z", "", "e"}, {"9999-12-31T23:59:59.9999Z", "", ""},
			{"", "9999-12-31T23:59:59.9999Z", "abcde"}, {"", "9999-12-31T23:59:59.9990000000001Z", "abcde"},
			{"9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.9999999999Z", "e"},
		} {
			s.Run(t, fmt.Sprintf("from %s to %s", test.from, test.to), func(t *testing.T) {
				query := url.Values{}
				if test.from != "" {
					query.Set("from", test.from)
				}
				if test.to != "" {
					query.Set("to", test.to)
				}
				res := alice.Get(servicetest.Plaza + "?" + query.Encode())
				res.Has(200)
				servicetest.Is(t, strings.Join(servicetest.EventNames(t, res.Body), ""), test.want, "names")
				// In pages it is the same.
				servicetest.Is(t, strings.Join(servicetest.Walk(t, s, alice, servicetest.Plaza+"?limit=1&"+query.Encode(), servicetest.EventNames), ""), test.want, "in pages")
			})
		}
	})
}

func TestListEventsParameters(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	alice.Create("plaza", "n", servicetest.When)
	tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
	s.Client().Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(tag)).IsError(401, "no_token")
	alice.Get(servicetest.Plaza+"?Wait=50", servicetest.IfNoneMatch(tag)).Is(304, "") // another parameter, which is ignored
	for _, query := range []string{
		"?", "?limit=1", "?limit=1000", "?unknown=1&unknown=2", "?Limit=0", "?LIMIT=x&From=x", "?limit[]=0", "?limit=1&x=%00", "?=", "?&&",
		"?from=2030-01-01T00:00:00%2B00:00", "?%66rom=2030-01-01T00:00:00Z", "?offset=7&page=2",
	} {
		servicetest.Is(t, servicetest.EventNames(t, alice.Get(servicetest.Plaza+query).Body), []string{"n"}, "%s", query)
	}
	for field, values := range map[string][]string{
		"limit": {"limit=0", "limit=-1", "limit=1001", "limit=", "limit", "limit=x", "limit=1.0", "limit=1e2", "limit=0x10", "limit=%201", "limit=4294967297", "limit=99999999999999999999",
			"limit=1&limit=1", "limit=1,2"},
		"from":   {"from=2030-02-30T00:00:00Z", "from=", "from=2030-01-01", "from=2030-01-01T00:00:00+00:00"}, // a plus that means a space
		"to":     {"to=1969-12-31T23:59:59Z", "to=9999-12-31T23:59:59-00:01", "to=2030-01-01T00:00:00Z&to=2030-01-01T00:00:00Z"},
		"cursor": {"cursor=a&cursor=a", "cursor=x&wait=50"},
		"wait": {"wait=0", "wait=51", "wait=-1", "wait=x", "wait=", "wait", "wait=1.5", "wait=1&wait=1", "wait=1&wait=2", "wait=1e1", "wait=0x1",
			"wait=%201", "wait=99999999999999999999", "wait=1s",
			"wait=%FF", "wait=1&limit=2&wait=1"},
	} {
		for _, value := range values {
			alice.Get(servicetest.Plaza+"?"+value).IsError(400, "validation_failed", field)
			alice.Get(servicetest.Plaza+"?"+value, servicetest.IfNoneMatch(tag)).IsError(400, "validation_failed", field)
		}
	}
	for _, query := range []string{"?from=x&to=y&limit=0&cursor=&wait=0", "?from=x&from=x&to=y&to=y&limit=0&limit=0&cursor=&cursor=&wait=1&wait=1"} {
		alice.Get(servicetest.Plaza+query).IsError(400, "validation_failed", "from", "to", "limit", "cursor", "wait")
	}
	alice.Get("/api/event/"+strings.Repeat("w", 129)+"?limit=0").IsError(400, "validation_failed", "id", "limit")
	alice.Get(servicetest.Plaza+"?limit=%zz").IsError(400, "validation_failed", "query")
}

// A new name shows at once, in old RSVPs too: the database keeps the copies true.
func TestListEventsFollowsUsernames(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "n", servicetest.When)
		s.Clock.Advance(time.Second)
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		tag := bob.Get(servicetest.Plaza).Header.Get("ETag")
		s.Database.Exec("UPDATE users SET username = ? WHERE username = ?", "Alicia \"A\"", "alice")
		bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "Alicia \"A\"", "bob")))
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success).HasHeader("Session-User", url.PathEscape("Alicia \"A\""))
	})
}
