package models_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// A row is known to be locked as long as somebody waits for it, and no longer.
func TestRowThatWasLocked(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) { o.DBTimeout, o.DBMaxWait = 2*time.Second, time.Second })
	alice, bob := s.SignIn("alice"), s.SignIn("bob").Session
	id, err := models.ParseID(alice.Create("w", "n", servicetest.When))
	if err != nil {
		t.Fatal(err)
	}
	user, err := models.ParseID(bob.UserID)
	if err != nil {
		t.Fatal(err)
	}
	tx := servicetest.BeginTx(t, s.Database, "SELECT FROM events FOR UPDATE")
	join := func() error { return s.Store.JoinEvent(t.Context(), models.Caller{UserID: user}, id) }
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			if err := join(); !errors.Is(err, models.ErrBusy) {
				t.Errorf("joined a locked event: %v", err)
			}
		})
	}
	const refused = `worldevents_database_errors_total{class="locked",pool="postgres"}`
	servicetest.Eventually(t, 20*time.Second, "all wait for the row", func() bool { return s.Store.LockedRows() == 1 && servicetest.Metric(t, s, refused) == 5 })
	for range 10 { // who comes now does not try in vain first
		wait.Go(func() {
			if err := join(); !errors.Is(err, models.ErrBusy) {
				t.Errorf("joined a locked event: %v", err)
			}
		})
	}
	wait.Wait()
	if n := servicetest.Metric(t, s, refused); n != 5 {
		t.Errorf("%.0f transactions were refused, want 5", n)
	}
	if n := s.Store.LockedRows(); n != 0 {
		t.Errorf("%d rows are known to be locked, and nobody needs them", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := join(); err != nil {
		t.Error(err)
	}
}

// However many wait for a row that stays locked, another one that was locked for a moment has its turn.
func TestLockedRowsAreApart(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) { o.DBTimeout, o.DBMaxWait = 40*time.Second, 15*time.Second })
	alice, bob := s.SignIn("alice"), s.SignIn("bob").Session
	user, err := models.ParseID(bob.UserID)
	if err != nil {
		t.Fatal(err)
	}
	join := func(event string) error {
		id, err := models.ParseID(event)
		if err != nil {
			t.Fatal(err)
		}
		return s.Store.JoinEvent(t.Context(), models.Caller{UserID: user}, id)
	}
	long, short := alice.Create("w", "long", servicetest.When), alice.Create("w", "short", servicetest.When)
	stays := servicetest.BeginTx(t, s.Database, "SELECT FROM events WHERE name = 'long' FOR UPDATE")
	var wait sync.WaitGroup
	var waiting atomic.Int32
	for range 40 {
		waiting.Add(1)
		wait.Go(func() {
			defer waiting.Add(-1)
			if err := join(long); err != nil {
				t.Error(err)
			}
		})
	}
	servicetest.Eventually(t, 20*time.Second, "one row is known to be locked", func() bool { return s.Store.LockedRows() == 1 })
	tx := servicetest.BeginTx(t, s.Database, "SELECT FROM events WHERE name = 'short' FOR UPDATE")
	wait.Go(func() {
		if err := join(short); err != nil || waiting.Load() != 40 {
			t.Errorf("%v, when %d still wait for the other row", err, waiting.Load())
		}
		stays.Rollback()
	})
	servicetest.Eventually(t, 20*time.Second, "two rows are known to be locked", func() bool { return s.Store.LockedRows() == 2 })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	wait.Wait()
}
