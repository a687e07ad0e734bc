package models_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Who needs a locked row waits for it, and has it when it is free. Who comes meanwhile does not have others wait with him.
func TestRowThatWasLocked(t *testing.T) {
	for _, leaves := range []bool{false, true} { // a leave needs its event, too
		t.Run(fmt.Sprintf("leaves %t", leaves), func(t *testing.T) {
			t.Parallel()
			testRowThatWasLocked(t, leaves)
		})
	}
}

func testRowThatWasLocked(t *testing.T, leaves bool) {
	s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) { o.DBTimeout, o.DBMaxWait = 60*time.Second, 20*time.Second })
	event := id(t, s.SignIn("alice").Create("w", "n", servicetest.When))
	const users = 15
	var callers [users]models.Caller
	for i := range callers {
		callers[i].UserID = id(t, s.AddUser(fmt.Sprint("user", i)))
		if leaves {
			servicetest.NoError(t, s.Store.JoinEvent(t.Context(), callers[i], event, nil))
		}
	}
	tx := servicetest.BeginTx(t, s.Database, "SELECT FROM events FOR UPDATE")
	change := func(ctx context.Context, i int) (err error) {
		if leaves {
			_, err = s.Store.LeaveEvent(ctx, callers[i], event)
			return err
		}
		return s.Store.JoinEvent(ctx, callers[i], event, nil)
	}
	hurried, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := change(hurried, 0); err == nil {
		t.Error("changed the RSVPs of a locked event")
	}
	if n := servicetest.Metric(t, s, `worldevents_database_errors_total{class="locked",pool="postgres"}`); n < 1 {
		t.Errorf("%.0f met a locked row", n)
	}
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			servicetest.Is(t, change(t.Context(), i), nil, "error")
		})
	}
	servicetest.NoError(t, tx.Rollback())
	all.Wait()
}

// However many rows stay locked, the writes that share transactions with theirs are done at once, and most connections are there for
// others.
func TestManyLockedRows(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) {
		o.DBTimeout, o.DBMaxWait, o.DBMaxConns = 60*time.Second, 30*time.Second, 8
	})
	alice := s.SignIn("alice")
	const n = 60 // of which each would have a transaction wait for 200 ms
	var users, others, events []models.ID
	for i := range n {
		users = append(users, id(t, s.AddUser(fmt.Sprint("user", i))))
		others = append(others, id(t, s.AddUser(fmt.Sprint("other", i))))
		events = append(events, id(t, alice.Create("w", fmt.Sprint("long", i), servicetest.When)))
	}
	short := id(t, alice.Create("w", "short", servicetest.When))
	locks := servicetest.BeginTx(t, s.Database, "SELECT FROM events WHERE name LIKE 'long%' FOR UPDATE")
	var free, all sync.WaitGroup
	var returned atomic.Int32
	join := func(user, event models.ID) error {
		return s.Store.JoinEvent(t.Context(), models.Caller{UserID: user}, event, nil)
	}
	for i := range n {
		all.Go(func() {
			servicetest.Is(t, join(users[i], events[i]), nil, "error")
			returned.Add(1)
		})
		free.Go(func() {
			servicetest.Is(t, join(others[i], short), nil, "error")
		})
	}
	free.Wait()
	if n := returned.Load(); n > 0 {
		t.Errorf("%d have joined a locked event, or given up", n)
	}
	alice.Post("/api/event/join/"+short.String(), "").Is(200, servicetest.Success)
	locks.Rollback()
	all.Wait()
	servicetest.Is(t, s.Database.Count("rsvps WHERE username LIKE 'other%'"), len(others), "joined")
}

// While a table is locked, writes of it are refused, and nothing of them has happened: also on a connection that has yet to prepare
// their statement.
func TestLockedTable(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		t.Run(fmt.Sprintf("prepared %t", prepared), func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) {
				o.DBTimeout, o.DBMaxWait, o.DBMaxConns = 10*time.Second, 5*time.Second, 1
			})
			event, bob := s.SignIn("alice").Create("w", "n", servicetest.When), s.SignIn("bob")
			if prepared {
				bob.Post("/api/event/join/"+event, "").Is(200, servicetest.Success)
				bob.Delete("/api/event/"+event).Is(200, servicetest.Success)
			}
			tx := servicetest.BeginTx(t, s.Database, "LOCK TABLE rsvps IN SHARE MODE")
			bob.Post("/api/event/join/"+event, "").IsError(503, "overloaded")
			bob.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			tx.Rollback()
			servicetest.Is(t, s.Database.Count("rsvps WHERE username = 'bob'"), 0, "RSVPs of somebody whose join was refused")
			bob.Post("/api/event/join/"+event, "").Is(200, servicetest.Success)
		})
	}
}

func id(t *testing.T, text string) models.ID {
	t.Helper()
	return servicetest.Must(models.ParseID(text))(t)
}
