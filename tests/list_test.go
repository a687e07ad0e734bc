package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
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
		if got := eventIDs(t, alice.Get("/api/event/reversed").Body); !slices.Equal(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
		if got := names(t, alice.Get(plaza).Body); !slices.Equal(got, []string{"2030-01-01T00:00:00Z", "2030-01-01T00:00:00.25Z", "2030-01-01T00:00:00.5Z"}) {
			t.Errorf("got %v", got)
		}
	})
}

// RSVPs are listed by the time of joining, then by user id, never by name.
func TestListEventsRSVPOrder(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s.Clock.Freeze(begin)
		users := []*servicetest.Client{s.SignIn("zoe"), s.SignIn("yan"), s.SignIn("xia"), s.SignIn("Alice"), s.SignIn("alice")}
		id := users[2].Create("plaza", "n", when)
		s.Clock.Freeze(begin.Add(20 * time.Microsecond))
		users[4].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Clock.Freeze(begin.Add(3 * time.Microsecond)) // 3 < 20, though not as text
		users[3].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Clock.Freeze(begin.Add(time.Second))
		users[1].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		users[0].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		users[0].Get(plaza).Is(200, list(listed(id, "n", "", when, "xia", "Alice", "alice", "zoe", "yan")))
	})
}

// The list is one text on both databases, whatever is in it.
func TestListEventsEscapes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		name := `"\/<b>&amp;'; -- $1 ?{}[],:` + "\u2028\u2029\ufeff\u202eé😀\U0010ffff\ufffd\u00ad"
		user := s.SignIn(name)
		second := s.SignIn(`\`)
		third := s.SignIn(`a,"b"],"c":[`)
		id := user.Create("plaza", name, when)
		s.Clock.Advance(time.Second)
		second.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Clock.Advance(time.Second)
		third.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		user.Get(plaza).Is(200, list(listed(id, name, "", when, name, `\`, `a,"b"],"c":[`)))
	})
}

func TestListEventsNeverNull(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Get(plaza).Is(200, `{"events":[]}`)
		alice.Get(plaza+"?limit=1").Is(200, `{"events":[]}`).HasHeader("Link", "")
		id := alice.Create("plaza", "n", when)
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		alice.Get(plaza).Is(200, list(listed(id, "n", "", when)))
		alice.Get(plaza+"?from=2031-01-01T00:00:00Z&to=2030-01-01T00:00:00Z").Is(200, `{"events":[]}`)
	})
}

func TestListEventsFromTo(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		for name, at := range map[string]string{"a": "1970-01-01T00:00:00Z", "b": "2030-01-01T00:00:00.000Z", "c": "2030-01-01T00:00:00.001Z", "d": "2030-01-01T00:00:00.002Z", "e": "9999-12-31T23:59:59.999Z"} {
			alice.Create("plaza", name, at)
		}
		for _, test := range []struct{ from, to, want string }{
			{"", "", "abcde"},
			{"2030-01-01T00:00:00.001Z", "", "cde"},
			{"", "2030-01-01T00:00:00.001Z", "ab"},
			{"2030-01-01T00:00:00Z", "2030-01-01T00:00:00.002Z", "bc"},
			{"2030-01-01T00:00:00.001Z", "2030-01-01T00:00:00.001Z", ""},
			{"2030-01-01T00:00:00.002Z", "2030-01-01T00:00:00.001Z", ""},
			{"2030-01-01T14:00:00.001+14:00", "2029-12-31T10:00:00.002-14:00", "c"},
			{"2030-01-01t00:00:00.001z", "2030-01-01t00:00:00.002z", "c"},
			{"1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "abcd"},
			// Digits beyond the millisecond round up.
			{"2030-01-01T00:00:00.0001Z", "", "cde"},
			{"2030-01-01T00:00:00.000000001Z", "", "cde"},
			{"2030-01-01T00:00:00.0000000000000000001Z", "", "cde"},
			{"2030-01-01T00:00:00.0009999999999999999Z", "", "cde"},
			{"2030-01-01T00:00:00.0000000000000000000Z", "", "bcde"},
			{"", "2030-01-01T00:00:00.0001Z", "ab"},
			{"", "2030-01-01T00:00:00.0010000000000000001Z", "abc"},
			{"", "2029-12-31T23:59:59.9999999Z", "a"},
			{"2030-01-01T00:00:00.0011Z", "2030-01-01T00:00:00.0019Z", ""},
			{"9999-12-31T23:59:59.999Z", "", "e"},
			{"9999-12-31T23:59:59.9999Z", "", ""},
			{"", "9999-12-31T23:59:59.9999Z", "abcde"},
			{"", "9999-12-31T23:59:59.9990000000001Z", "abcde"},
			{"9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.9999999999Z", "e"},
		} {
			query := url.Values{}
			if test.from != "" {
				query.Set("from", test.from)
			}
			if test.to != "" {
				query.Set("to", test.to)
			}
			res := alice.Get(plaza + "?" + query.Encode())
			if res.Status != 200 {
				t.Errorf("from %s to %s: %d %s", test.from, test.to, res.Status, res.Body)
				continue
			}
			got := strings.Join(names(t, res.Body), "")
			if got != test.want {
				t.Errorf("from %s to %s: %q, want %q", test.from, test.to, got, test.want)
			}
			// In pages it is the same.
			if got := strings.Join(walk(t, s, alice, plaza+"?limit=1&"+query.Encode(), names), ""); got != test.want {
				t.Errorf("from %s to %s in pages: %q, want %q", test.from, test.to, got, test.want)
			}
		}
	})
}

func TestListEventsParameters(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	alice.Create("plaza", "n", when)
	for _, query := range []string{
		"?", "?limit=1", "?limit=1000", "?unknown=1&unknown=2", "?Limit=0", "?LIMIT=x&From=x", "?limit[]=0", "?limit=1&x=%00", "?=", "?&&",
		"?from=2030-01-01T00:00:00%2B00:00", "?%66rom=2030-01-01T00:00:00Z", "?offset=7&page=2",
	} {
		if got := names(t, alice.Get(plaza+query).Body); !slices.Equal(got, []string{"n"}) {
			t.Errorf("%s: %q", query, got)
		}
	}
	for query, fields := range map[string][]string{
		"?limit=0":                        {"limit"},
		"?limit=-1":                       {"limit"},
		"?limit=1001":                     {"limit"},
		"?limit=":                         {"limit"},
		"?limit":                          {"limit"},
		"?limit=x":                        {"limit"},
		"?limit=1.0":                      {"limit"},
		"?limit=1e2":                      {"limit"},
		"?limit=0x10":                     {"limit"},
		"?limit=%201":                     {"limit"},
		"?limit=4294967297":               {"limit"},
		"?limit=99999999999999999999":     {"limit"},
		"?limit=1&limit=1":                {"limit"},
		"?limit=1,2":                      {"limit"},
		"?from=2030-02-30T00:00:00Z":      {"from"},
		"?from=":                          {"from"},
		"?from=2030-01-01":                {"from"},
		"?from=2030-01-01T00:00:00+00:00": {"from"}, // a plus that means a space
		"?to=1969-12-31T23:59:59Z":        {"to"},
		"?to=9999-12-31T23:59:59-00:01":   {"to"},
		"?to=2030-01-01T00:00:00Z&to=2030-01-01T00:00:00Z":         {"to"},
		"?from=x&to=y&limit=0&cursor=":                             {"from", "to", "limit", "cursor"},
		"?from=x&from=x&to=y&to=y&limit=0&limit=0&cursor=&cursor=": {"from", "to", "limit", "cursor"},
		"?cursor=a&cursor=a":                                       {"cursor"},
	} {
		alice.Get(plaza+query).IsError(400, "validation_failed", fields...)
	}
	alice.Get("/api/event/"+strings.Repeat("w", 129)+"?limit=0").IsError(400, "validation_failed", "id", "limit")
	if res := alice.Get(plaza + "?limit=%zz"); res.Status != 400 || res.Error().Code != "validation_failed" {
		t.Errorf("an escape that is none: %d %s", res.Status, res.Body)
	}
}

func TestListEventsPages(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		const n = 9
		for i := range n {
			// Several events at one instant: the id goes on where the time is the same.
			alice.Create("plaza", fmt.Sprint(i), time.Date(2030, 1, 1, 0, 0, 0, i/3*1e6, time.UTC).Format(time.RFC3339Nano))
		}
		alice.Create("other", "x", when)
		whole := eventIDs(t, alice.Get(plaza).HasHeader("Link", "").Body)
		if len(whole) != n {
			t.Fatalf("%d events", len(whole))
		}
		for limit := 1; limit <= n+1; limit++ {
			if got := walk(t, s, alice, fmt.Sprintf("%s?limit=%d", plaza, limit), eventIDs); !slices.Equal(got, whole) {
				t.Errorf("limit %d: %v, want %v", limit, got, whole)
			}
		}

		// The Link is absolute and repeats from, to and limit, and nothing else.
		const from, to = "2029-12-31T23:00:00-01:00", "2031-01-01T00:00:00.0001Z"
		res := alice.Get(plaza + "?x=y&limit=2&to=" + to + "&from=" + from)
		next := nextPage(t, s, res)
		query := next.Query()
		cursor := query.Get("cursor")
		if want := (url.Values{"from": {from}, "to": {to}, "limit": {"2"}, "cursor": {cursor}}); !equal(query, want) || next.Path != plaza {
			t.Errorf("Link %s", res.Header.Get("Link"))
		}
		// Without limit everything after the cursor follows.
		if got := eventIDs(t, alice.Get(plaza+"?cursor="+cursor).HasHeader("Link", "").Body); !slices.Equal(got, whole[2:]) {
			t.Errorf("after the cursor: %v", got)
		}
		// A page with exactly the rest has no next one.
		alice.Get(plaza+"?limit=7&cursor="+cursor).HasHeader("Link", "")

		// The cursor stands for a place, not for an event or an offset.
		early := alice.Create("plaza", "early", "2000-01-01T00:00:00Z")
		s.Database.Exec("DELETE FROM events WHERE id = ?", whole[1])
		if got := eventIDs(t, alice.Get(plaza+"?limit=2&cursor="+cursor).Body); !slices.Equal(got, whole[2:4]) {
			t.Errorf("after %s came and %s went: %v", early, whole[1], got)
		}

		bad := []string{"x", "!!!", "%00", "%ff", cursor + "A", cursor + "=", cursor[1:], cursor[:len(cursor)-1], strings.ToUpper(cursor), cursor + cursor, "%20" + cursor, cursor + "%0A"}
		for i := range cursor { // a changed character anywhere, the last one's unused bits included
			changed := []byte(cursor)
			changed[i] = map[bool]byte{true: 'B', false: 'A'}[changed[i] == 'A']
			bad = append(bad, string(changed))
		}
		for _, text := range bad {
			alice.Get(plaza+"?limit=2&cursor="+text).IsError(400, "validation_failed", "cursor")
		}
		alice.Get("/api/event/other?cursor="+cursor).IsError(400, "validation_failed", "cursor")
		alice.Get("/api/event/Plaza?limit=1&cursor="+cursor).IsError(400, "validation_failed", "cursor")
	})
}

// The last character of a cursor may carry bits that decode to nothing: only one spelling counts.
func TestListEventsCursorIsCanonical(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	alice.Create("plaza", "a", when)
	alice.Create("plaza", "b", when)
	cursor := nextPage(t, s, alice.Get(plaza+"?limit=1")).Query().Get("cursor")
	alice.Get(plaza+"?cursor="+cursor).Is(200, alice.Get(plaza+"?cursor="+cursor).Body)
	if len(cursor)%4 != 0 {
		alice.Get(plaza+"?cursor="+nonCanonical(cursor)).IsError(400, "validation_failed", "cursor")
	}
}

// The Link leads through a proxy: it is built from BASE_URL, with the world escaped once.
func TestListEventsLinkAddress(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.BaseURL, _ = url.Parse("https://example.org:8443/a%20b/c/") })
	alice := s.SignIn("alice")
	for path, spelled := range map[string]string{"plaza": "plaza", "a%2Fb": "a%2Fb", "100%25": "100%25", "%C3%A9%20x": "%C3%A9%20x", "a%3Fb%23c": "a%3Fb%23c", "%22%3E%3Cb": "%22%3E%3Cb"} {
		cookie := servicetest.Cookies("token=" + alice.Session.Token)
		s.Client().Post("/api/event/"+path, event, cookie).Is(200, servicetest.Success)
		s.Client().Post("/api/event/"+path, event, cookie).Is(200, servicetest.Success)
		link := s.Client().Get("/api/event/"+path+"?limit=1", cookie).Header.Get("Link")
		if want := "<https://example.org:8443/a%20b/c/api/event/" + spelled + "?limit=1&cursor="; !strings.HasPrefix(link, want) {
			t.Errorf("Link %s\nwant %s", link, want)
		}
	}
}

func TestListEventsETag(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "a", when)
		alice.Create("plaza", "b", when)
		res := alice.Get(plaza).HasHeader("Cache-Control", "private, no-cache").HasHeader("Vary", "Cookie, Origin")
		tag, body := res.Header.Get("ETag"), res.Body
		opaque := strings.TrimPrefix(tag, "W/")
		if !strings.HasPrefix(tag, `W/"`) || len(tag) < 12 {
			t.Fatalf("ETag %s", tag)
		}
		bob.Get(plaza).HasHeader("ETag", tag) // the same body, whoever asks

		for _, value := range []string{tag, opaque, `"x", ` + tag, tag + `,"x"`, `W/"x",` + tag + `,W/"y"`, "*", " " + tag + " "} {
			alice.Get(plaza, ifNoneMatch(value)).Is(304, "").HasHeader("ETag", tag).HasHeader("Link", "").
				HasHeader("Cache-Control", "private, no-cache").HasHeader("Vary", "Cookie, Origin").SetsNoCookie()
		}
		lines := func(r *http.Request) { r.Header["If-None-Match"] = []string{`"x"`, tag} }
		alice.Get(plaza, lines).Is(304, "")
		for _, value := range []string{`"x"`, `W/"x"`, strings.Trim(opaque, `"`), strings.ToLower(tag), `"` + tag + `"`, `""`, `x`} {
			alice.Get(plaza, ifNoneMatch(value)).Is(200, body).HasHeader("ETag", tag)
		}

		// The tag also stands for the Link.
		page := alice.Get(plaza + "?limit=1")
		pageTag, link := page.Header.Get("ETag"), page.Header.Get("Link")
		alice.Get(plaza+"?limit=1", ifNoneMatch(pageTag)).Is(304, "").HasHeader("ETag", pageTag).HasHeader("Link", link)
		whole := alice.Get(plaza + "?limit=2")
		whole.Is(200, body).HasHeader("ETag", tag).HasHeader("Link", "")
		third := alice.Create("plaza", "c", "2040-01-01T00:00:00Z")
		after := alice.Get(plaza+"?limit=2", ifNoneMatch(tag)).Is(200, body) // the same body, but more follows
		if after.Header.Get("Link") == "" || after.Header.Get("ETag") == tag {
			t.Errorf("a new Link needs a new ETag: %v", after.Header)
		}
		s.Database.Exec("DELETE FROM events WHERE id = ?", third)
		alice.Get(plaza, ifNoneMatch(tag)).Is(304, "")

		// Joining changes it, leaving brings it back.
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		if joined := alice.Get(plaza, ifNoneMatch(tag)); joined.Status != 200 || joined.Header.Get("ETag") == tag {
			t.Errorf("after a join: %d %s", joined.Status, joined.Header.Get("ETag"))
		}
		bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
		alice.Get(plaza, ifNoneMatch(tag)).Is(304, "")
		// Requests that fail are not answered 304.
		s.Client().Get(plaza, ifNoneMatch("*")).IsError(401, "no_token")
		alice.Get(plaza+"?limit=0", ifNoneMatch("*")).IsError(400, "validation_failed", "limit")
	})
}

// A new name shows at once, in old RSVPs too: the database keeps the copies true.
func TestListEventsFollowsUsernames(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "n", when)
		s.Clock.Advance(time.Second)
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		tag := bob.Get(plaza).Header.Get("ETag")
		s.Database.Exec("UPDATE users SET username = ? WHERE username = ?", "Alicia \"A\"", "alice")
		bob.Get(plaza, ifNoneMatch(tag)).Is(200, list(listed(id, "n", "", when, "Alicia \"A\"", "bob")))
		alice.Get(refresh).Is(200, servicetest.Success).HasHeader("Session-User", url.PathEscape("Alicia \"A\""))
	})
}

// Events outlive their creator; RSVPs go with their user.
func TestListEventsWithoutCreator(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "n", when)
		s.Clock.Advance(time.Second)
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Database.Exec("DELETE FROM users WHERE username = ?", "alice")
		bob.Get(plaza).Is(200, list(listed(id, "n", "", when, "bob")))
	})
}

// A list of many events and RSVPs is whole.
func TestListEventsLarge(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		var want []string
		for i := range 60 {
			want = append(want, listed(alice.Create("plaza", fmt.Sprint(i), when), fmt.Sprint(i), strings.Repeat("d", 5000), when, "alice"))
		}
		s.Database.Exec("UPDATE events SET description = ?", strings.Repeat("d", 5000))
		alice.Get(plaza).Is(200, list(want...))
	})
}

// walk follows the Links to the last page and joins what pick finds in each.
func walk(t *testing.T, s *servicetest.Service, c *servicetest.Client, path string, pick func(*testing.T, string) []string) (all []string) {
	t.Helper()
	for range 100 {
		res := c.Get(path)
		all = append(all, pick(t, res.Body)...)
		if res.Header.Get("Link") == "" {
			return all
		}
		path = nextPage(t, s, res).RequestURI()
	}
	t.Fatal("the pages have no end")
	return nil
}

// nextPage reads the Link of a page.
func nextPage(t *testing.T, s *servicetest.Service, res *servicetest.Response) *url.URL {
	t.Helper()
	link := res.Header.Get("Link")
	target, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	u, err := url.Parse(target)
	if !ok || err != nil || !strings.HasPrefix(target, s.URL+"/api/event/") {
		t.Fatalf("Link %q", link)
	}
	return u
}

func eventIDs(t *testing.T, body string) []string { return members(t, body, "id") }

func names(t *testing.T, body string) []string { return members(t, body, "name") }

// members picks one member of each event in a list.
func members(t *testing.T, body, name string) (all []string) {
	t.Helper()
	var list struct{ Events []map[string]any }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, event := range list.Events {
		all = append(all, event[name].(string))
	}
	return all
}
