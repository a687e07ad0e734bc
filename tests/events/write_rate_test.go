package events

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A user who writes without end is told so, over all operations that write and all of their sessions; nobody else is, and
// the user still reads.
func TestWriteRate(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := bob.Create("plaza", "n", servicetest.When)
		alice.Post("/api/event/join/nothing", "").IsError(404, "event_not_found") // what fails counts, too
		bob.Post("/api/event/join/"+id, "").IsError(429, "rate_limited")
		again := s.SignIn("alice")
		for _, c := range []*servicetest.Client{alice, again} {
			c.Post("/api/event/join/"+id, "").IsError(429, "rate_limited").HasHeader("Retry-After", "1")
			c.Delete("/api/event/"+id).IsError(429, "rate_limited")
			c.Post(servicetest.Plaza, servicetest.EventBody).IsError(429, "rate_limited")
			c.Post(servicetest.Plaza, `{"name":""}`).IsError(429, "rate_limited") // before the body is looked at
			c.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
		}
		if res := again.Get(servicetest.Plaza); res.Status != 200 {
			t.Errorf("a list: %d", res.Status)
		}
		s.SignIn("carol").Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Client().Post("/api/event/join/"+id, "").IsError(401, "no_token")
	}, func(o *servicetest.Options) { o.WriteRate = 0.001 }) // one at once, and the next after a quarter of an hour
}

// Of one user's requests 16 read lists at once. The others wait and are not refused, and nobody else
// waits for them.
func TestDifferentListsAtOnce(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	s := servicetest.Start(t, db, func(o *servicetest.Options) { o.DBMaxConns = 60 })
	alice, bob := s.SignIn("alice"), s.SignIn("bob")
	release := servicetest.Lock(t, db, "events")
	done := make(chan *servicetest.Response)
	const lists = 40
	for i := range lists {
		go func() { done <- alice.Get(fmt.Sprintf("/api/event/w%d", i)) }()
	}
	servicetest.Eventually(t, 10*time.Second, "16 lists are read", func() bool { return inUseConnections(t, s) == 16 })
	go func() { done <- bob.Get(servicetest.Plaza) }()
	servicetest.Eventually(t, 10*time.Second, "another user's, too", func() bool { return inUseConnections(t, s) == 17 })
	release()
	for range lists + 1 {
		(<-done).Is(200, servicetest.List())
	}
}

var connectionsInUse = regexp.MustCompile(`(?m)^go_sql_in_use_connections\{db_name="postgres"\} (\d+)$`)

func inUseConnections(t *testing.T, s *servicetest.Service) int {
	t.Helper()
	match := connectionsInUse.FindStringSubmatch(servicetest.Metrics(t, s))
	if match == nil {
		t.Fatal("no such metric")
	}
	n, _ := strconv.Atoi(match[1])
	return n
}
