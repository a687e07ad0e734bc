package models_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// ear is a Store that listens, and all that it was told.
type ear struct {
	*models.Store
	own, others atomic.Int64 // writes since the last call of awaits
}

// newEar opens a Store that listens until the end of the test.
func newEar(t *testing.T, url string) *ear {
	t.Helper()
	e := &ear{Store: openStore(t, url)}
	e.Subscribe(func(own bool) {
		if own {
			e.own.Add(1)
		} else {
			e.others.Add(1)
		}
	})
	return e
}

func openStore(t *testing.T, url string) *models.Store {
	t.Helper()
	s := servicetest.Must(models.Open(models.Options{URL: url, MaxConns: 4, Timeout: 20 * time.Second, Sessions: models.SessionPolicy{TTL: time.Hour, PerUser: 1}}))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// awaits fails unless another instance tells of a write.
func (e *ear) awaits(t *testing.T, what string) {
	t.Helper()
	servicetest.Eventually(t, 20*time.Second, what+" is told", func() bool { return e.others.Swap(0) > 0 })
}

func addCaller(t *testing.T, s *models.Store, name string) models.Caller {
	t.Helper()
	user := servicetest.Must(s.AddUser(t.Context(), name))(t)
	return models.Caller{UserID: user.ID}
}

func newEvent(world string) models.Event {
	return models.Event{WorldID: world, Name: "x", ScheduledAt: time.Now().UTC().Truncate(time.Millisecond)}
}

func createEvent(t *testing.T, s *models.Store, caller models.Caller, world string) models.ID {
	t.Helper()
	return servicetest.Must(s.CreateEvent(t.Context(), caller, newEvent(world)))(t)
}

// A write is told before its call returns, if it has changed something.
func TestOwnWrites(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		e := newEar(t, db.URL)
		alice, bob, nobody := addCaller(t, e.Store, "alice"), addCaller(t, e.Store, "bob"), models.Caller{UserID: models.ID{1}}
		var event models.ID
		create := func(caller models.Caller, world string) (err error) {
			event, err = e.CreateEvent(t.Context(), caller, newEvent(world))
			return err
		}
		leave := func(caller models.Caller, event models.ID) error {
			_, err := e.LeaveEvent(t.Context(), caller, event)
			return err
		}
		edit := func() error {
			_, err := e.EditEvent(t.Context(), event, models.EventEdit{Name: new("other")})
			return err
		}
		editOwn := func(caller models.Caller) error {
			seen, err := e.FindOwnEvent(t.Context(), caller.UserID, event)
			if err != nil {
				return err
			}
			next := seen
			next.Name += "!"
			return e.EditOwnEvent(t.Context(), caller, seen, next)
		}
		rename := func() error { _, err := e.RenameUser(t.Context(), models.Who{Username: "alice"}, "alicia"); return err }
		prune := func() error {
			_, err := e.RemoveEvents(t.Context(), models.EventRemoval{EventFilter: models.EventFilter{World: "old"}, Progress: func(models.RemovedEvents) {}})
			return err
		}
		for _, step := range []struct {
			name       string
			do         func() error
			fail, told bool
		}{
			{"create by nobody", func() error { return create(nobody, "w") }, true, false},
			{"create", func() error { return create(alice, "w") }, false, true},
			{"join", func() error { return e.JoinEvent(t.Context(), bob, event) }, false, true},
			{"join again", func() error { return e.JoinEvent(t.Context(), bob, event) }, false, false},
			{"join by nobody", func() error { return e.JoinEvent(t.Context(), nobody, event) }, true, false},
			{"join nothing", func() error { return e.JoinEvent(t.Context(), bob, models.ID{2}) }, true, false},
			{"leave", func() error { return leave(bob, event) }, false, true},
			{"leave again", func() error { return leave(bob, event) }, false, false},
			{"leave by nobody", func() error { return leave(nobody, event) }, true, false},
			{"leave nothing", func() error { return leave(bob, models.ID{2}) }, true, false},
			{"rename", rename, false, true},
			{"edit", edit, false, true},
			{"edit by its creator", func() error { return editOwn(alice) }, false, true},
			{"edit by another", func() error { return editOwn(bob) }, true, false},
			{"cancel by another", func() error { _, err := e.CancelEvent(t.Context(), bob, event); return err }, true, false},
			{"cancel", func() error { _, err := e.CancelEvent(t.Context(), alice, event); return err }, false, true},
			{"cancel again", func() error { _, err := e.CancelEvent(t.Context(), alice, event); return err }, true, false},
			{"create another", func() error { return create(alice, "w") }, false, true},
			{"remove a user", func() error {
				_, err := e.RemoveUser(t.Context(), models.Who{Username: "alicia"}, models.UserRemoval{})
				return err
			}, false, true},
			{"remove an event", func() error { _, err := e.RemoveEvent(t.Context(), event); return err }, false, true},
			{"create an old one", func() error { return create(bob, "old") }, false, true},
			{"prune", prune, false, true},
		} {
			if err := step.do(); (err != nil) != step.fail {
				t.Fatalf("%s: %v", step.name, err)
			}
			if told := e.own.Swap(0) > 0; told != step.told {
				t.Errorf("%s: told: %t", step.name, told)
			}
		}
	})
}

// What one instance writes all others are told, and it is not told itself.
func TestWritesOfOthers(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	first, second := newEar(t, db.URL), newEar(t, db.URL)
	db.AwaitListeners(t, 2)
	alice := addCaller(t, first.Store, "alice")
	event := createEvent(t, first.Store, alice, "w")
	second.awaits(t, "a create")
	for range 100 {
		createEvent(t, first.Store, alice, "w")
	}
	second.awaits(t, "many creates")
	if n := first.others.Load(); n > 0 {
		t.Errorf("an instance is told %d times of its own writes", n)
	}
	servicetest.Must(second.LeaveEvent(t.Context(), alice, event))(t)
	first.awaits(t, "a leave")

	command := openStore(t, db.URL)
	servicetest.NoError(t, command.JoinEvent(t.Context(), alice, event))
	command.Close()
	first.awaits(t, "a join by a command")
	second.awaits(t, "a join by a command")
}

// Whatever anybody notifies on the channel wakes instances, and what others write still does.
func TestNotificationsByStrangers(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	first, second := newEar(t, db.URL), newEar(t, db.URL)
	db.AwaitListeners(t, 2)
	db.Exec("NOTIFY worldevents")
	second.awaits(t, "a notification by hand")
	payloads := []string{"x y", "hello world", "AAAAAAAAAAAAAAAAAAAAAA=", "\n", "héllo", fmt.Sprintf("%07999d", 0)}
	for _, payload := range payloads {
		db.Exec("SELECT pg_notify('worldevents', ?)", payload)
	}
	createEvent(t, first.Store, addCaller(t, first.Store, "alice"), "w")
	servicetest.Eventually(t, 20*time.Second, "all arrive", func() bool { return second.others.Load() > int64(len(payloads)) })
}

// An instance that was cut off listens again.
func TestListensAgain(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, address := db.ThroughProxy()
	first, second := newEar(t, db.URL), newEar(t, address)
	db.AwaitListeners(t, 2)
	alice := addCaller(t, first.Store, "alice")

	db.Exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'")
	db.AwaitListeners(t, 2)
	createEvent(t, first.Store, alice, "after terminate")
	second.awaits(t, "a create")

	proxy.Down()
	db.AwaitListeners(t, 1)
	createEvent(t, first.Store, alice, "away")
	proxy.Up()
	db.AwaitListeners(t, 2)
	createEvent(t, first.Store, alice, "after the proxy")
	second.awaits(t, "a create")
}

// Nobody listens with a URL for a pooler that gives server connections to others: LISTEN would stay on one of them.
func TestListensNotBehindPooler(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	u := servicetest.Must(url.Parse(db.URL))(t)
	query := u.Query()
	query.Set("default_query_exec_mode", "exec")
	u.RawQuery = query.Encode()
	pooled, first, second := newEar(t, u.String()), newEar(t, db.URL), newEar(t, db.URL)
	db.AwaitListeners(t, 2)
	alice := addCaller(t, first.Store, "alice")
	for range 10 {
		createEvent(t, first.Store, alice, "w")
		second.awaits(t, "a create")
	}
	db.AwaitListeners(t, 2)
	if n := pooled.Instances().Received(); n > 0 {
		t.Errorf("told %d times", n)
	}
	createEvent(t, pooled.Store, alice, "w")
	second.awaits(t, "a create behind a pooler")
}

// The worlds that have changed since a moment are those that were written to, by whomever, and of nothing but such a moment all are.
func TestWorldsSince(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		here, there := openStore(t, db.URL), openStore(t, db.URL)
		ask := func(m models.Moment) models.ChangedWorlds {
			t.Helper()
			answer, err := here.WorldsSince(t.Context(), m)
			if err != nil || answer.Now.IsZero() {
				t.Fatalf("%+v %v", answer, err)
			}
			slices.Sort(answer.Names)
			return answer
		}
		start := ask(models.Moment{})
		if !start.All {
			t.Errorf("%+v since the beginning", start)
		}
		alice := addCaller(t, here, "alice")
		if got := ask(start.Now); got.All || len(got.Names) > 0 {
			t.Errorf("%+v after nothing", got)
		}
		event := createEvent(t, here, alice, "b")
		createEvent(t, there, alice, "a")
		if got := ask(start.Now); got.All || !slices.Equal(got.Names, []string{"a", "b"}) {
			t.Errorf("%+v after two creates", got)
		}
		before := ask(start.Now).Now
		servicetest.Must(there.LeaveEvent(t.Context(), alice, event))(t)
		if got := ask(before); got.All || !slices.Equal(got.Names, []string{"b"}) {
			t.Errorf("%+v after a leave", got)
		}
		db.Exec("UPDATE events SET world_id = 'c' WHERE world_id = 'a'")
		if got := ask(before); got.All || !slices.Equal(got.Names, []string{"a", "b", "c"}) {
			t.Errorf("%+v after a move", got)
		}
		for from, to := 0, 10_000; from < to; from += 500 {
			var values []string
			for i := from; i < from+500; i++ {
				values = append(values, fmt.Sprintf("('00000000-0000-7000-8002-%012d', 'world %d', 'n', '', '2030-01-02 03:04:05+00:00', '2030-01-02 03:04:05+00:00')", i, i))
			}
			db.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES " + strings.Join(values, ", "))
		}
		if got := ask(before); !got.All || len(got.Names) > 0 {
			t.Errorf("all: %t, and %d worlds after 10,003 changed", got.All, len(got.Names))
		}
	})
}
