package models_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// A row is known to be locked as long as somebody waits for it, and no longer; and who comes meanwhile does not try in vain first.
func TestRowThatWasLocked(t *testing.T) {
	for _, leaves := range []bool{false, true} { // a leave needs its event, too
		t.Run(fmt.Sprintf("leaves %t", leaves), func(t *testing.T) {
			t.Parallel()
			testRowThatWasLocked(t, leaves)
		})
	}
}

func testRowThatWasLocked(t *testing.T, leaves bool) {
	s := servicetest.Start(t, servicetest.Postgres(t))
	event := id(t, s.SignIn("alice").Create("w", "n", servicetest.When))
	const users = 15
	var callers [users]models.Caller
	for i := range callers {
		callers[i].UserID = id(t, s.AddUser(fmt.Sprint("user", i)))
		if leaves {
			if err := s.Store.JoinEvent(t.Context(), callers[i], event); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx := servicetest.BeginTx(t, s.Database, "SELECT FROM events FOR UPDATE")
	change := func(ctx context.Context, i int) (err error) {
		if leaves {
			_, err = s.Store.LeaveEvent(ctx, callers[i], event)
			return err
		}
		return s.Store.JoinEvent(ctx, callers[i], event)
	}
	hurried, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := change(hurried, 0); err == nil {
		t.Error("changed the RSVPs of a locked event")
	}
	if n := rows(s); n != 0 {
		t.Errorf("%d rows are known to be locked, and nobody needs them", n)
	}
	var all sync.WaitGroup
	come := func(from, to int) {
		for i := from; i < to; i++ {
			all.Go(func() {
				if err := change(t.Context(), i); err != nil {
					t.Error(err)
				}
			})
		}
		servicetest.Eventually(t, 15*time.Second, fmt.Sprint(to, " wait for the row"), func() bool {
			_, n := s.Store.LockedRows()
			return n == to
		})
	}
	const refused = `worldevents_database_errors_total{class="locked",pool="postgres"}`
	come(0, 5)
	before := servicetest.Metric(t, s, refused)
	come(5, users)
	if n := servicetest.Metric(t, s, refused); n != before {
		t.Errorf("%.0f more transactions were refused", n-before)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if n := rows(s); n != 0 {
		t.Errorf("%d rows are known to be locked, and all have passed", n)
	}
}

// However many wait for a row that stays locked, another one that was locked for a moment has its turn.
func TestLockedRowsAreApart(t *testing.T) {
	for _, test := range []struct{ name, lock string }{
		{"an event that many join", "SELECT FROM events WHERE name = 'long0' FOR UPDATE"},
		{"a user who joins many events", "SELECT FROM users WHERE username = 'user0' FOR UPDATE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) { o.DBTimeout, o.DBMaxWait = 40*time.Second, 15*time.Second })
			const n = 40
			alice := s.SignIn("alice")
			var users, events []models.ID
			for i := range n {
				users = append(users, id(t, s.AddUser(fmt.Sprint("user", i))))
				events = append(events, id(t, alice.Create("w", fmt.Sprint("long", i), servicetest.When)))
			}
			join := func(user, event models.ID) error {
				return s.Store.JoinEvent(t.Context(), models.Caller{UserID: user}, event)
			}
			short := id(t, alice.Create("w", "short", servicetest.When))
			stays := servicetest.BeginTx(t, s.Database, test.lock)
			var wait sync.WaitGroup
			var waiting atomic.Int32
			for i := range n {
				waiting.Add(1)
				user, event := users[i], events[0]
				if strings.Contains(test.lock, "users") {
					user, event = users[0], events[i]
				}
				wait.Go(func() {
					defer waiting.Add(-1)
					if err := join(user, event); err != nil {
						t.Error(err)
					}
				})
			}
			servicetest.Eventually(t, 20*time.Second, "a row is known to be locked", func() bool { return rows(s) > 0 })
			tx := servicetest.BeginTx(t, s.Database, "SELECT FROM events WHERE name = 'short' FOR UPDATE")
			known := rows(s)
			wait.Go(func() {
				if err := join(users[1], short); err != nil || waiting.Load() != n {
					t.Errorf("%v, when %d still wait for the other row", err, waiting.Load())
				}
				stays.Rollback()
			})
			servicetest.Eventually(t, 20*time.Second, "another row is known to be locked", func() bool { return rows(s) > known })
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			wait.Wait()
		})
	}
}

// However many rows stay locked, the writes that share transactions with theirs are done at once, and most connections are there for
// others.
func TestManyLockedRows(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) {
		o.DBTimeout, o.DBMaxWait, o.DBMaxConns = 10*time.Second, 10*time.Second, 8
	})
	alice := s.SignIn("alice")
	const n = 60 // of which each would have a transaction wait for 200 ms
	var users, events []models.ID
	for i := range n {
		users = append(users, id(t, s.AddUser(fmt.Sprint("user", i))))
		events = append(events, id(t, alice.Create("w", fmt.Sprint("long", i), servicetest.When)))
	}
	free := id(t, alice.Create("w", "free", servicetest.When))
	locks := servicetest.BeginTx(t, s.Database, "SELECT FROM events WHERE name LIKE 'long%' FOR UPDATE")
	var others, all sync.WaitGroup
	join := func(user, event models.ID) {
		if err := s.Store.JoinEvent(t.Context(), models.Caller{UserID: user}, event); err != nil {
			t.Error(err)
		}
	}
	for i := range n {
		all.Go(func() { join(users[i], events[i]) })
		others.Go(func() { join(users[i], free) })
	}
	others.Wait()
	servicetest.Eventually(t, 20*time.Second, "all rows are known to be locked", func() bool { return rows(s) == n })
	alice.Post("/api/event/join/"+free.String(), "").Is(200, servicetest.Success)
	if left := rows(s); left != n {
		t.Errorf("%d rows are known to be locked, want %d", left, n)
	}
	locks.Rollback()
	all.Wait()
}

// While a table is locked, writes of it are refused, and nothing of them has happened: also on a connection that has yet to prepare
// their statement.
func TestLockedTable(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		t.Run(fmt.Sprintf("prepared %t", prepared), func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) {
				o.DBTimeout, o.DBMaxWait, o.DBMaxConns = 4*time.Second, time.Second, 1
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
			if n := s.Database.Count("rsvps WHERE username = 'bob'"); n != 0 {
				t.Errorf("%d RSVPs of somebody whose join was refused", n)
			}
			bob.Post("/api/event/join/"+event, "").Is(200, servicetest.Success)
		})
	}
}

func rows(s *servicetest.Service) int {
	n, _ := s.Store.LockedRows()
	return n
}

func id(t *testing.T, text string) models.ID {
	t.Helper()
	id, err := models.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
