package models_test

import (
	"fmt"
	"testing"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Two processes may sweep one file. What one has begun the other may end, and the number of a removed event is that of another event
// then, which the first leaves alone.
func TestSweepLeavesReusedNumber(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	s := openStore(t, db.URL)
	servicetest.Seed(db, 1200, 1, 0)
	event := func(id int, world string, rsvps, year int) {
		db.Exec("DELETE FROM events") // as another process does
		db.Exec("INSERT INTO events (number, id, world_id, name, description, scheduled_at, created_at) VALUES (1, ?, ?, 'n', '', ?, ?)",
			servicetest.IDOf(id), world, servicetest.At(2030), servicetest.At(2026))
		db.Exec("INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT 1, number, username, ? FROM users LIMIT ?",
			fmt.Sprintf("%d-01-01 00:00:00+00:00", year), rsvps)
	}
	for _, rsvps := range []int{3, 1200} { // less than a batch, and more
		var at models.Swept
		event(1, "", 1200, 2026)
		servicetest.Is(t, servicetest.Must(s.Sweep(&at))(t), 1, "the event that it has begun")
		event(2, "plaza", rsvps, 2027)
		servicetest.Is(t, servicetest.Must(s.Sweep(&at))(t), 0, "the event that it has begun")
		servicetest.NoError(t, s.SweepEvents(t.Context()))
		servicetest.Is(t, [2]int{db.Count("events"), db.Count("rsvps")}, [2]int{1, rsvps}, "events and RSVPs left")
	}
}
