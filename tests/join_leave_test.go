package tests

import (
	"strings"
	"testing"
	"time"

	"worldevents/tests/service"
)

func TestJoinAndLeaveEvent(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		alice, bob, carol := s.SignIn("alice"), s.SignIn("bob"), s.SignIn("carol")
		id := alice.Create("plaza", "n", when)
		is := func(usernames ...string) {
			t.Helper()
			alice.Get(plaza).Is(200, list(listed(id, "n", "", when, usernames...)))
			s.Clock.Advance(time.Second)
		}
		is("alice")
		bob.Post("/api/event/join/"+id, "").Is(200, service.Success).HasHeader("Event-Id", "").SetsNoCookie()
		is("alice", "bob")
		carol.Post("/api/event/join/"+id, "").Is(200, service.Success)
		is("alice", "bob", "carol")
		// Joining again keeps the first RSVP and its time.
		bob.Post("/api/event/join/"+id, "").Is(200, service.Success)
		alice.Post("/api/event/join/"+id, "").Is(200, service.Success)
		is("alice", "bob", "carol")
		// The creator leaves; the event stays.
		alice.Delete("/api/event/"+id).Is(200, service.Success)
		is("bob", "carol")
		alice.Delete("/api/event/"+id).Is(200, service.Success)
		is("bob", "carol")
		// Coming back is a new RSVP.
		alice.Post("/api/event/join/"+id, "").Is(200, service.Success)
		bob.Delete("/api/event/"+id).Is(200, service.Success)
		is("carol", "alice")
		bob.Post("/api/event/join/"+id, "").Is(200, service.Success)
		is("carol", "alice", "bob")
		for _, c := range []*service.Client{alice, bob, carol} {
			c.Delete("/api/event/"+id).Is(200, service.Success)
		}
		is()
	})
}

// A malformed id is just an unknown one.
func TestJoinAndLeaveUnknownEvents(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		alice := s.SignIn("alice")
		id := s.SignIn("bob").Create("plaza", "n", when)
		for _, unknown := range []string{
			"01980000-0000-7000-8000-000000000001", "x", "plaza", "0", "-1", "%20", "%00", "%ff", "a%2Fb", "%F0%9F%98%80", "null", "join",
			strings.ToUpper(id), "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id + "%20", id + "%00", "%20" + id, strings.Repeat("x", 2000),
			"'%20OR%20'1'='1",
		} {
			alice.Post("/api/event/join/"+unknown, "").IsError(404, "event_not_found")
			alice.Delete("/api/event/"+unknown).IsError(404, "event_not_found")
		}
		if n := s.Database.Count("rsvps"); n != 1 {
			t.Errorf("%d RSVPs", n)
		}
		// Percent-encoding does not make it another id.
		alice.Post("/api/event/join/%30"+id[1:], "").Is(200, service.Success)
		alice.Delete("/api/event/"+strings.ReplaceAll(id, "-", "%2D")).Is(200, service.Success)
	})
}

// The acting user comes from the session alone.
func TestJoinEventForNobodyElse(t *testing.T) {
	service.Each(t, func(t *testing.T, s *service.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "n", when)
		s.Clock.Advance(time.Second)
		// Even under a name that the JWT got wrong: the row is the user's of its subject.
		token := s.JWT(s.Claims(bob.Session.UserID, time.Minute).And("username", "mallory"))
		s.Client().Post("/api/event/join/"+id+"?userId="+alice.Session.UserID, "", service.Cookies("token="+token)).Is(200, service.Success)
		bob.Get(plaza).Is(200, list(listed(id, "n", "", when, "alice", "bob")))
		bob.Delete("/api/event/"+id+"?userId="+alice.Session.UserID).Is(200, service.Success)
		bob.Get(plaza).Is(200, list(listed(id, "n", "", when, "alice")))
	})
}

func TestJoinEventTakesNoBody(t *testing.T) {
	t.Parallel()
	s := service.New(t)
	alice := s.SignIn("alice")
	id := alice.Create("plaza", "n", when)
	alice.Post("/api/event/join/"+id, "{}").IsError(400, "validation_failed", "body")
	alice.Post("/api/event/join/"+id, " ", chunked).IsError(400, "validation_failed", "body")
	alice.Do("DELETE", "/api/event/"+id, "{}").IsError(400, "validation_failed", "body")
	alice.Do("GET", plaza, "{}").IsError(400, "validation_failed", "body")
	// A media type without a body is harmless.
	alice.Post("/api/event/join/"+id, "", service.Header("Content-Type", "text/plain")).Is(200, service.Success)
}

// The database itself refuses RSVPs of nobody, to nothing, or under a wrong name.
func TestRSVPForeignKeys(t *testing.T) {
	service.EachDatabase(t, func(t *testing.T, db *service.Database) {
		s := service.Start(t, db)
		alice := s.SignIn("alice")
		event, user := alice.Create("plaza", "n", when), alice.Session.UserID
		bob := s.AddUser("bob")
		const nobody = "01980000-0000-7000-8000-00000000dead"
		for _, row := range [][]any{{event, nobody, "bob"}, {nobody, bob, "bob"}, {event, bob, "alice"}, {event, user, "alice"}} {
			if _, err := db.TryExec("INSERT INTO rsvps (event_id, user_id, username, created_at) VALUES (?, ?, ?, ?)", append(row, s.Clock.Now())...); err == nil {
				t.Errorf("stored %v", row)
			}
		}
		db.Exec("DELETE FROM events WHERE id = ?", event)
		if n := db.Count("rsvps"); n != 0 {
			t.Errorf("%d RSVPs outlived their event", n)
		}
	})
}
