package events

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestJoinAndLeaveEvent(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob, carol := s.SignIn("alice"), s.SignIn("bob"), s.SignIn("carol")
		id := alice.Create("plaza", "n", servicetest.When)
		is := func(usernames ...string) {
			t.Helper()
			alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, usernames...)))
			s.Clock.Advance(time.Second)
		}
		is("alice")
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success).HasHeader("Event-Id", "").SetsNoCookie()
		is("alice", "bob")
		carol.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		is("alice", "bob", "carol")
		// Joining again keeps the first RSVP and its time.
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		alice.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		is("alice", "bob", "carol")
		// The creator leaves; the event stays.
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		is("bob", "carol")
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		is("bob", "carol")
		// Coming back is a new RSVP.
		alice.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
		is("carol", "alice")
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		is("carol", "alice", "bob")
		for _, c := range []*servicetest.Client{alice, bob, carol} {
			c.Delete("/api/event/"+id).Is(200, servicetest.Success)
		}
		is()
	})
}

// A malformed id is just an unknown one.
func TestJoinAndLeaveUnknownEvents(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		id := s.SignIn("bob").Create("plaza", "n", servicetest.When)
		for _, unknown := range []string{
			"01980000-0000-7000-8000-000000000001", "x", "plaza", "0", "-1", "%20", "%00", "%ff", "a%2Fb", "%F0%9F%98%80", "null", "join",
			strings.ToUpper(id), "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id + "%20", id + "%00", "%20" + id, strings.Repeat("x", 2000),
			"'%20OR%20'1'='1",
		} {
			alice.Post("/api/event/join/"+unknown, "").IsError(404, "event_not_found")
			alice.Delete("/api/event/"+unknown).IsError(404, "event_not_found")
		}
		servicetest.Is(t, s.Database.Count("rsvps"), 1, "RSVPs")
		// Percent-encoding does not make it another id.
		alice.Post("/api/event/join/%30"+id[1:], "").Is(200, servicetest.Success)
		alice.Delete("/api/event/"+strings.ReplaceAll(id, "-", "%2D")).Is(200, servicetest.Success)
	})
}

// The acting user comes from the session alone.
func TestJoinEventForNobodyElse(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "n", servicetest.When)
		s.Clock.Advance(time.Second)
		// Even under a name that the JWT got wrong: the row is the user's of its subject.
		token := s.JWT(s.Claims(bob.Session.UserID, time.Minute).And("username", "mallory"))
		s.Client().Post("/api/event/join/"+id+"?userId="+alice.Session.UserID, "", servicetest.Cookies("token="+token)).Is(200, servicetest.Success)
		bob.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "alice", "bob")))
		bob.Delete("/api/event/"+id+"?userId="+alice.Session.UserID).Is(200, servicetest.Success)
		bob.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "alice")))
	})
}

// Only createEvent has a body. Elsewhere many clients send "{}"; whatever is sent, the response is the same as without.
func TestUnwantedBodiesAreIgnored(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice, bob := s.SignIn("alice"), s.SignIn("bob")
	id := alice.Create("plaza", "n", servicetest.When)
	s.Clock.Advance(time.Second)
	bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
	both := servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "alice", "bob"))
	etag := alice.Get(servicetest.Plaza).Is(200, both).Header.Get("ETag")
	notModified := servicetest.Header("If-None-Match", etag)

	for name, body := range map[string]string{
		"an object": "{}", "null": "null", "a form": "userId=x&name=", "text": "hello", "invalid JSON": `{"a":1,"a":`, "an event": servicetest.EventBody,
		"invalid UTF-8": "\xff\x00", "white space": " ", "64 KiB": strings.Repeat(" ", 64<<10),
	} {
		for _, contentType := range []string{"", "application/json", "application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-16", ";"} {
			if name != "an object" && contentType != "application/json" {
				continue // nothing looks at both, so each is tried beside a usual other
			}
			for _, length := range []servicetest.RequestOption{func(*http.Request) {}, servicetest.Chunked} {
				send := func(c *servicetest.Client, method, path string, with ...servicetest.RequestOption) *servicetest.Response {
					t.Helper()
					return c.Do(method, path, body, append(with, servicetest.Header("Content-Type", contentType), length)...)
				}
				send(bob, "DELETE", "/api/event/"+id).Is(200, servicetest.Success)
				send(bob, "POST", "/api/event/join/"+id).Is(200, servicetest.Success)
				send(alice, "GET", servicetest.Plaza).Is(200, both)
				send(alice, "GET", servicetest.Plaza, notModified).Is(304, "")
				send(bob, "POST", "/api/event/join/x").IsError(404, "event_not_found")
				send(alice, "GET", servicetest.Plaza+"?limit=0").IsError(400, "validation_failed", "limit")
				send(alice, "GET", "/api/auth/session").Is(200, servicetest.Authenticated)
				if t.Failed() {
					t.Fatalf("with %s as %q", name, contentType)
				}
			}
		}
	}
	// A media type without a body is as harmless.
	alice.Post("/api/event/join/"+id, "", servicetest.Header("Content-Type", "text/plain")).Is(200, servicetest.Success)
}

// A client that asks before it sends a body, wanted or not, may send a small one, and is refused a large one.
func TestUnwantedBodiesExpectContinue(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	id := alice.Create("plaza", "n", servicetest.When)
	for target, body := range map[string]string{
		"POST /api/event/join/" + id: "{}", "DELETE /api/event/" + id: "{}", "GET " + servicetest.Plaza: "{}",
		"POST " + servicetest.Plaza: servicetest.EventBody + strings.Repeat(" ", 64<<10-len(servicetest.EventBody)),
	} {
		ask := func(size int, body string) string {
			return s.Raw(fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nCookie: token=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
				"Expect: 100-continue\r\nConnection: close\r\n\r\n%s", target, alice.Session.Token, size, body))
		}
		if got := ask(64<<10+1, ""); !strings.HasPrefix(got, "HTTP/1.1 413 ") {
			t.Errorf("%s with too much: %.60q", target, got)
		}
		if got := ask(len(body), body); !strings.HasPrefix(got, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n") {
			t.Errorf("%s with no more than may be: %.60q", target, got)
		}
	}
}

// A request whose body does not end holds nothing that others need: it is refused before it waits, for news as for all else. The
// auth endpoints, whose errors are all named, take it for none.
func TestUnwantedBodiesThatDoNotEnd(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "n", servicetest.When)
		news := make(chan *servicetest.Response)
		go func() {
			etag := alice.Get(servicetest.Plaza).Header.Get("ETag")
			news <- alice.Get(servicetest.Plaza+"?wait=50", servicetest.IfNoneMatch(etag))
		}()
		for body, announced := range map[string]string{
			"":                     fmt.Sprint("Content-Length: ", 64<<10+1),
			strings.Repeat("x", 9): fmt.Sprint("Content-Length: ", 1<<40),
			"10001\r\n" + strings.Repeat("x", 64<<10+1): "Transfer-Encoding: chunked",
			"zzz\r\n": "Transfer-Encoding: chunked",
		} {
			for _, target := range []string{"POST /api/event/join/" + id, "DELETE /api/event/" + id, "GET " + servicetest.Plaza, "GET " + servicetest.Plaza + "?wait=50"} {
				servicetest.AtOnce(4, func(int) {
					got := s.Raw(fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nCookie: token=%s\r\nIf-None-Match: \"old\"\r\n%s\r\n\r\n%s", target, bob.Session.Token, announced, body))
					servicetest.Contains(t, got, "HTTP/1.1 413 ", "\r\nConnection: close\r\n", `"body_too_large"`)
				})
			}
		}
		servicetest.Is(t, s.Database.Count("rsvps"), 1, "RSVPs")
		alice.Post("/api/event/plaza", servicetest.EventBody).Is(200, servicetest.Success)
		(<-news).Has(200)
		got := s.Raw(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nCookie: token=%s\r\nContent-Length: %d\r\n\r\n%s",
			servicetest.SessionPath, bob.Session.Token, 64<<10+1, strings.Repeat("x", 64<<10+1)))
		servicetest.Contains(t, got, "HTTP/1.1 200 OK\r\n")
	})
}

// A connection outlives an unwanted body, and what the body holds is not taken for another request.
func TestUnwantedBodiesKeepTheConnection(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	alice.Create("plaza", "n", servicetest.When)
	request := func(body string) string {
		return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nCookie: token=%s\r\nContent-Length: %d\r\n\r\n%s", servicetest.Plaza, alice.Session.Token, len(body), body)
	}
	got := s.Raw(request(request("")) + request("{}") + request(""))
	if strings.Count(got, "HTTP/1.1 200 OK\r\n") != 3 || strings.Count(got, "HTTP/1.1 ") != 3 {
		t.Errorf("%q", got)
	}
}

// The database itself refuses RSVPs of nobody, to nothing, or under a wrong name.
func TestRSVPForeignKeys(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		s := servicetest.Start(t, db)
		alice := s.SignIn("alice")
		event, user := alice.Create("plaza", "n", servicetest.When), alice.Session.UserID
		bob := s.AddUser("bob")
		const nobody = "01980000-0000-7000-8000-00000000dead"
		for _, row := range [][]any{{event, nobody, "bob"}, {nobody, bob, "bob"}, {event, bob, "alice"}, {event, user, "alice"}} {
			if _, err := db.TryExec(`
				INSERT INTO rsvps (event_number, user_number, username, created_at)
				VALUES (coalesce((SELECT number FROM events WHERE id = ?), 7), coalesce((SELECT number FROM users WHERE id = ?), 7), ?, ?)`,
				append(row, s.Clock.Now())...); err == nil {
				t.Errorf("stored %v", row)
			}
		}
		db.Exec("DELETE FROM events WHERE id = ?", event)
		servicetest.Is(t, db.Count("rsvps"), 0, "RSVPs outlived their event")
	})
}
