package models

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"gorm.io/gorm"
)

// Two processes may sweep one file. What one has begun the other may end, and the number of a removed event is that of another event
// then, which the first leaves alone.
func TestSweepLeavesReusedNumber(t *testing.T) {
	ctx := context.Background()
	s, err := Open(Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "db"), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	in := func(fn func(tx *gorm.DB) error) {
		t.Helper()
		if err := s.transaction(ctx, fn); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(query string, args ...any) {
		t.Helper()
		in(func(tx *gorm.DB) error { return tx.Exec(query, args...).Error })
	}
	event := func(id, world string, rsvps int, year int) {
		t.Helper()
		exec("INSERT INTO events (number, id, world_id, name, description, scheduled_at, created_at) VALUES (1, ?, ?, 'n', '', ?, ?)",
			id, world, "2030-01-01 00:00:00+00:00", "2026-01-01 00:00:00+00:00")
		exec("INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT 1, number, username, ? FROM users LIMIT ?",
			fmt.Sprintf("%d-01-01 00:00:00+00:00", year), rsvps)
	}
	exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
		INSERT INTO users (id, username, created_at) SELECT printf('00000000-0000-7000-9000-%012d', i), 'user ' || i, '2026-01-01 00:00:00+00:00' FROM n`)

	for _, rsvps := range []int{3, 1200} { // less than a batch, and more
		event("00000000-0000-7000-8000-000000000001", detached, 1200, 2026)
		var at swept
		in(func(tx *gorm.DB) (err error) { at, err = s.sweep(tx, at); return err })
		if at.event != 1 {
			t.Fatalf("it has begun event %d", at.event)
		}
		exec("DELETE FROM events") // as another process does
		event("00000000-0000-7000-8000-000000000002", "plaza", rsvps, 2027)
		in(func(tx *gorm.DB) (err error) { at, err = s.sweep(tx, at); return err })
		if err := s.SweepEvents(ctx); err != nil || at.event != 0 {
			t.Errorf("%v at event %d", err, at.event)
		}
		var left [2]int
		in(func(tx *gorm.DB) error {
			return scan(tx.Raw("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM rsvps)"), &left[0], &left[1])
		})
		if left != [2]int{1, rsvps} {
			t.Errorf("%v are left, want 1 event with %d RSVPs", left, rsvps)
		}
		exec("DELETE FROM events")
	}
}
