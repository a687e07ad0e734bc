package models_test

import (
	"errors"
	"fmt"
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
	s := servicetest.Must(models.Open(models.Options{URL: url, MaxConns: 4, Timeout: time.Minute, MaxWait: 20 * time.Second, Sessions: models.SessionPolicy{TTL: time.Hour, PerUser: 1}}))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// migrated is a Store on a server's database, with one connection, which makes all plans.
func migrated(t *testing.T, server *servicetest.PostgresServer) *models.Store {
	t.Helper()
	s := servicetest.Must(models.Open(models.Options{URL: server.URL(), MaxConns: 1, Timeout: time.Minute, MaxWait: 20 * time.Second}))(t)
	t.Cleanup(func() { s.Close() })
	servicetest.NoError(t, s.Migrate(t.Context()))
	return s
}

// awaits fails unless another instance tells of a write.
func (e *ear) awaits(t *testing.T, what string) {
	t.Helper()
	servicetest.Eventually(t, what+" is told", func() bool { return e.others.Swap(0) > 0 })
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

// second is the error of a call.
func second[T any](_ T, err error) error { return err }

// A write is told before its call returns, if it has changed something.
func TestOwnWrites(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		e, ctx := newEar(t, db.URL), t.Context()
		alice, bob, nobody := addCaller(t, e.Store, "alice"), addCaller(t, e.Store, "bob"), models.Caller{UserID: models.ID{1}}
		var event models.ID
		create := func(caller models.Caller, world string) func() error {
			return func() (err error) {
				event, err = e.CreateEvent(ctx, caller, newEvent(world))
				return err
			}
		}
		editOwn := func(caller models.Caller) error {
			seen, err := e.FindOwnEvent(ctx, caller.UserID, event)
			next := seen
			next.Name += "!"
			return errors.Join(err, e.EditOwnEvent(ctx, caller, seen, next))
		}
		old := models.EventRemoval{EventFilter: models.EventFilter{World: "old"}, Progress: func(models.RemovedEvents) {}}
		for _, step := range []struct {
			name       string
			do         func() error
			fail, told bool
		}{
			{"create by nobody", create(nobody, "w"), true, false},
			{"create", create(alice, "w"), false, true},
			{"join", func() error { return e.JoinEvent(ctx, bob, event, nil) }, false, true},
			{"join again", func() error { return e.JoinEvent(ctx, bob, event, nil) }, false, false},
			{"join by nobody", func() error { return e.JoinEvent(ctx, nobody, event, nil) }, true, false},
			{"join nothing", func() error { return e.JoinEvent(ctx, bob, models.ID{2}, nil) }, true, false},
			{"leave", func() error { return second(e.LeaveEvent(ctx, bob, event)) }, false, true},
			{"leave again", func() error { return second(e.LeaveEvent(ctx, bob, event)) }, false, false},
			{"leave by nobody", func() error { return second(e.LeaveEvent(ctx, nobody, event)) }, true, false},
			{"leave nothing", func() error { return second(e.LeaveEvent(ctx, bob, models.ID{2})) }, true, false},
			{"rename", func() error { return second(e.RenameUser(ctx, models.Who{Username: "alice"}, "alicia")) }, false, true},
			{"edit", func() error { return second(e.EditEvent(ctx, event, models.EventEdit{Name: new("other")})) }, false, true},
			{"edit by its creator", func() error { return editOwn(alice) }, false, true},
			{"edit by another", func() error { return editOwn(bob) }, true, false},
			{"cancel by another", func() error { return second(e.CancelEvent(ctx, bob, event)) }, true, false},
			{"cancel", func() error { return second(e.CancelEvent(ctx, alice, event)) }, false, true},
			{"cancel again", func() error { return second(e.CancelEvent(ctx, alice, event)) }, true, false},
			{"create another", create(alice, "w"), false, true},
			{"remove a user", func() error { return second(e.RemoveUser(ctx, models.Who{Username: "alicia"}, models.UserRemoval{})) }, false, true},
			{"remove an event", func() error { return second(e.RemoveEvent(ctx, event)) }, false, true},
			{"create an old one", create(bob, "old"), false, true},
			{"prune", func() error { return second(e.RemoveEvents(ctx, old)) }, false, true},
		} {
			if err := step.do(); (err != nil) != step.fail {
				t.Fatalf("%s: %v", step.name, err)
			}
			servicetest.Is(t, e.own.Swap(0) > 0, step.told, "%s: it is told", step.name)
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
	servicetest.Is(t, first.others.Load(), 0, "how often an instance is told of its own writes")
	servicetest.Must(second.LeaveEvent(t.Context(), alice, event))(t)
	first.awaits(t, "a leave")

	command := openStore(t, db.URL)
	servicetest.NoError(t, command.JoinEvent(t.Context(), alice, event, nil))
	command.Close()
	first.awaits(t, "a join by a command")
	second.awaits(t, "a join by a command")

	// Whatever anybody notifies on the channel wakes instances, and what others write still does.
	payloads := []string{"", "x y", "hello world", "AAAAAAAAAAAAAAAAAAAAAA=", "\n", "héllo", fmt.Sprintf("%07999d", 0)}
	for _, payload := range payloads {
		db.Exec("SELECT pg_notify('worldevents', ?)", payload)
	}
	createEvent(t, first.Store, alice, "w")
	servicetest.Eventually(t, "all arrive", func() bool { return second.others.Load() > int64(len(payloads)) })
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
	pooled, first, second := newEar(t, db.With("default_query_exec_mode=exec").URL), newEar(t, db.URL), newEar(t, db.URL)
	db.AwaitListeners(t, 2)
	alice := addCaller(t, first.Store, "alice")
	for range 10 {
		createEvent(t, first.Store, alice, "w")
		second.awaits(t, "a create")
	}
	db.AwaitListeners(t, 2)
	servicetest.Is(t, pooled.Instances().Received(), 0, "how often one behind a pooler is told")
	createEvent(t, pooled.Store, alice, "w")
	second.awaits(t, "a create behind a pooler")
}

// The worlds that have changed since a moment are those that were written to, by whomever, and of nothing but such a moment all are.
func TestWorldsSince(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		here, there := s.Store, s.NewInstance().Store
		changed := func(after string, since models.Moment, all bool, names ...string) (now models.Moment) {
			t.Helper()
			answer := servicetest.Must(here.WorldsSince(t.Context(), since))(t)
			slices.Sort(answer.Names)
			servicetest.Is(t, answer.All, all, "all worlds have changed after %s", after)
			servicetest.Is(t, strings.Join(answer.Names, " "), strings.Join(names, " "), "what has changed after %s", after)
			servicetest.Is(t, answer.Now.IsZero(), false, "there is no moment after %s", after)
			return answer.Now
		}
		start := changed("nothing", models.Moment{}, true)
		alice := addCaller(t, here, "alice")
		changed("a user is added", start, false)
		event := createEvent(t, here, alice, "b")
		createEvent(t, there, alice, "a")
		before := changed("two creates", start, false, "a", "b")
		servicetest.Must(there.LeaveEvent(t.Context(), alice, event))(t)
		changed("a leave", before, false, "b")
		s.Database.Exec("UPDATE events SET world_id = 'c' WHERE world_id = 'a'")
		changed("a move", before, false, "a", "b", "c")
		servicetest.AddEvents(s, "many", 8000, 10_000, 2030, "")
		s.Database.Exec("UPDATE events SET world_id = 'world ' || number WHERE world_id = 'many'")
		changed("10,000 moves", before, true)
	})
}
