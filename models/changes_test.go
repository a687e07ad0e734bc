package models_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// ear is a Store that listens, and all that it was told.
type ear struct {
	*models.Store
	Log *servicetest.Log

	mu    sync.Mutex
	hints map[models.Source][]models.Hint
}

// newEar opens a Store that listens until the end of the test.
func newEar(t *testing.T, url string) *ear {
	t.Helper()
	e := &ear{Store: openStore(t, url), Log: new(servicetest.Log), hints: make(map[models.Source][]models.Hint)}
	e.Subscribe(slog.New(slog.NewTextHandler(e.Log, nil)), func(from models.Source, hints ...models.Hint) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.hints[from] = append(e.hints[from], hints...)
	})
	return e
}

func openStore(t *testing.T, url string) *models.Store {
	t.Helper()
	s, err := models.Open(models.Options{URL: url, MaxConns: 4, Timeout: 20 * time.Second, Sessions: models.SessionPolicy{TTL: time.Hour, PerUser: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// heard is what was told since the last call.
func (e *ear) heard(from models.Source) []models.Hint {
	e.mu.Lock()
	defer e.mu.Unlock()
	hints := e.hints[from]
	delete(e.hints, from)
	return hints
}

// awaits fails unless these hints of others come, and in any order no others.
func (e *ear) awaits(t *testing.T, what string, want ...models.Hint) {
	t.Helper()
	got := make(map[models.Hint]bool)
	servicetest.Eventually(t, 20*time.Second, what+" is heard of", func() bool {
		for _, hint := range e.heard(models.Notified) {
			if !slices.Contains(want, hint) {
				t.Errorf("%s: a hint of nothing: %x", what, hint)
			}
			got[hint] = true
		}
		return len(got) == len(want)
	})
}

func (e *ear) awaitHearing(t *testing.T) {
	t.Helper()
	servicetest.Eventually(t, 20*time.Second, "others are heard", e.Hears)
}

func addCaller(t *testing.T, s *models.Store, name string) models.Caller {
	t.Helper()
	user, err := s.AddUser(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return models.Caller{UserID: user.ID}
}

func newEvent(world string) models.Event {
	return models.Event{WorldID: world, Name: "x", ScheduledAt: time.Now().UTC().Truncate(time.Millisecond)}
}

func createEvent(t *testing.T, s *models.Store, caller models.Caller, world string) models.ID {
	t.Helper()
	id, err := s.CreateEvent(t.Context(), caller, newEvent(world))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A write is hinted at before its call returns, exactly when it has changed something.
func TestOwnHints(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		e := newEar(t, db.URL)
		alice, bob, nobody := addCaller(t, e.Store, "alice"), addCaller(t, e.Store, "bob"), models.Caller{UserID: models.ID{1}}
		var event models.ID
		for _, step := range []struct {
			name string
			do   func() error
			fail bool
			want func() []models.Hint
		}{
			{"create", func() error { event = createEvent(t, e.Store, alice, "w"); return nil }, false, func() []models.Hint { return []models.Hint{models.WorldHint("w")} }},
			{"create by nobody", func() error {
				_, err := e.CreateEvent(t.Context(), nobody, newEvent("w"))
				return err
			}, true, nil},
			{"join", func() error { return e.JoinEvent(t.Context(), bob, event) }, false, func() []models.Hint { return []models.Hint{models.EventHint(event)} }},
			{"join again", func() error { return e.JoinEvent(t.Context(), bob, event) }, false, nil},
			{"join by nobody", func() error { return e.JoinEvent(t.Context(), nobody, event) }, true, nil},
			{"join nothing", func() error { return e.JoinEvent(t.Context(), bob, models.ID{2}) }, true, nil},
			{"leave", func() error { return e.LeaveEvent(t.Context(), bob, event) }, false, func() []models.Hint { return []models.Hint{models.EventHint(event)} }},
			{"leave again", func() error { return e.LeaveEvent(t.Context(), bob, event) }, false, nil},
			{"leave by nobody", func() error { return e.LeaveEvent(t.Context(), nobody, event) }, true, nil},
			{"leave nothing", func() error { return e.LeaveEvent(t.Context(), bob, models.ID{2}) }, true, nil},
			{"demo", func() error { _, err := openStore(t, db.URL).Demo(t.Context()); return err }, false, nil},
			{"rename", func() error { _, err := e.RenameUser(t.Context(), "alice", "alicia"); return err }, false, func() []models.Hint { return []models.Hint{models.EventHint(event)} }},
			{"rename nobody", func() error { _, err := e.RenameUser(t.Context(), "alice", "alicia"); return err }, true, nil},
			{"edit", func() error {
				_, err := e.EditEvent(t.Context(), event, models.EventEdit{Name: new("other")})
				return err
			}, false, func() []models.Hint { return []models.Hint{models.WorldHint("w")} }},
			{"edit nothing", func() error {
				_, err := e.EditEvent(t.Context(), models.ID{2}, models.EventEdit{Name: new("other")})
				return err
			}, true, nil},
			{"remove a user", func() error { _, err := e.RemoveUser(t.Context(), "alicia", false); return err }, false, func() []models.Hint { return []models.Hint{models.EventHint(event)} }},
			{"remove an event", func() error { _, err := e.RemoveEvent(t.Context(), event); return err }, false, func() []models.Hint { return []models.Hint{models.WorldHint("w")} }},
			{"remove nothing", func() error { _, err := e.RemoveEvent(t.Context(), event); return err }, true, nil},
			{"prune", func() error {
				event = createEvent(t, e.Store, bob, "old")
				e.heard(models.OwnWrite)
				_, err := e.PruneEvents(t.Context(), models.EventPrune{Before: time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC), World: "old", Progress: func(models.RemovedEvents) {}})
				return err
			}, false, func() []models.Hint { return []models.Hint{models.WorldHint("old")} }},
		} {
			if err := step.do(); (err != nil) != step.fail {
				t.Fatalf("%s: %v", step.name, err)
			}
			var want []models.Hint
			if step.want != nil {
				want = step.want()
			}
			if got := e.heard(models.OwnWrite); !slices.Equal(got, want) {
				t.Errorf("%s: hints %x, want %x", step.name, got, want)
			}
		}
	})
}

// What one instance writes all others hear of, and it does not hear itself.
func TestHintsOfOthers(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	first, second := newEar(t, db.URL), newEar(t, db.URL)
	first.awaitHearing(t)
	second.awaitHearing(t)
	alice := addCaller(t, first.Store, "alice")
	event := createEvent(t, first.Store, alice, "w")
	second.awaits(t, "a create", models.WorldHint("w"))
	if err := second.LeaveEvent(t.Context(), alice, event); err != nil {
		t.Fatal(err)
	}
	first.awaits(t, "a leave", models.EventHint(event))

	var worlds []models.Hint // more than fit in one notification
	var all sync.WaitGroup
	for i := range 1000 {
		worlds = append(worlds, models.WorldHint(fmt.Sprintf("world %d", i)))
	}
	for i := range 4 { // the pool's connections
		all.Go(func() {
			for n := i; n < 1000; n += 4 {
				if _, err := first.CreateEvent(t.Context(), alice, newEvent(fmt.Sprintf("world %d", n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	second.awaits(t, "1000 creates", worlds...)
	if got := first.heard(models.Notified); len(got) > 0 {
		t.Errorf("an instance hears itself: %x", got)
	}

	command := openStore(t, db.URL)
	if err := command.JoinEvent(t.Context(), alice, event); err != nil {
		t.Fatal(err)
	}
	command.Close()
	first.awaits(t, "a join by a command", models.EventHint(event))
	second.awaits(t, "a join by a command", models.EventHint(event))
}

// Whatever anybody notifies on the channel, hints still come.
func TestNotificationsByStrangers(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	first, second := newEar(t, db.URL), newEar(t, db.URL)
	first.awaitHearing(t)
	second.awaitHearing(t)
	for _, payload := range []string{"", "x", "hello world", "AAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAAA", "\n", "héllo", fmt.Sprintf("%07999d", 0)} {
		db.Exec("SELECT pg_notify('worldevents', ?)", payload)
	}
	event := createEvent(t, first.Store, addCaller(t, first.Store, "alice"), "w")
	second.awaits(t, "a create", models.WorldHint("w"))
	if !second.Hears() || event.IsZero() {
		t.Error("deaf")
	}
}

// A listener that was cut off listens again, and says so, once each.
func TestHearsAgain(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, url := db.ThroughProxy()
	first, second := newEar(t, db.URL), newEar(t, url)
	first.awaitHearing(t)
	second.awaitHearing(t)
	alice := addCaller(t, first.Store, "alice")

	db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'")
	servicetest.Eventually(t, 20*time.Second, "both listen again", func() bool {
		return first.count("are heard") == 2 && second.count("are heard") == 2 && first.Hears() && second.Hears()
	})
	createEvent(t, first.Store, alice, "after terminate")
	second.awaits(t, "a create", models.WorldHint("after terminate"))

	proxy.Down()
	servicetest.Eventually(t, 20*time.Second, "the loss is noticed", func() bool { return !second.Hears() })
	createEvent(t, first.Store, alice, "away")
	proxy.Up()
	second.awaitHearing(t)
	second.heard(models.Notified)
	createEvent(t, first.Store, alice, "after the proxy")
	second.awaits(t, "a create", models.WorldHint("after the proxy"))
	if heard, deaf := second.count("are heard"), second.count("not heard"); heard != 3 || deaf != 2 {
		t.Errorf("heard %d times and lost %d times, want 3 and 2:\n%s", heard, deaf, second.Log)
	}
}

func (e *ear) count(words string) int { return strings.Count(e.Log.String(), words) }

// The position changes with every write that another instance makes, and rests while nothing is written.
func TestWritePosition(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		here, there := openStore(t, db.URL), openStore(t, db.URL)
		position := func() int64 {
			t.Helper()
			p, err := here.WritePosition(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		alice := addCaller(t, here, "alice")
		before := position()
		changes := func(what string, want bool) {
			t.Helper()
			after := position()
			if (after != before) != want {
				t.Errorf("%s: from %d to %d", what, before, after)
			}
			before = after
		}
		rests := func() {
			t.Helper()
			// On PostgreSQL the writes of other databases count, too, which other tests have there.
			servicetest.Eventually(t, 20*time.Second, "the position rests", func() bool {
				was := before
				before = position()
				return was == before
			})
		}
		rests()
		event := createEvent(t, there, alice, "w")
		changes("a create by another", true)
		rests()
		for range 20 {
			if err := there.LeaveEvent(t.Context(), alice, event); err != nil {
				t.Fatal(err)
			}
			changes("a leave by another", true)
			if err := here.JoinEvent(t.Context(), alice, event); err != nil {
				t.Fatal(err)
			}
			if db.Dialect == "sqlite" {
				changes("an own join", false)
			}
			before = position()
		}
		db.Exec("UPDATE events SET name = 'y'")
		changes("an update behind the service's back", true)
		if db.Dialect == "sqlite" {
			for _, mode := range []string{"PASSIVE", "TRUNCATE"} {
				db.Exec("UPDATE events SET name = 'z'")
				db.Exec("PRAGMA wal_checkpoint(" + mode + ")")
				changes("a checkpoint behind an update", true)
			}
		}
		rests()
	})
}

// The position of SQLite waits neither for the write lock, nor for ever, nor after the end.
func TestWritePositionWhileOthersWrite(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	here := openStore(t, db.URL)
	conn, err := db.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := here.WritePosition(t.Context()); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	here.Close()
	if _, err := here.WritePosition(t.Context()); err == nil {
		t.Error("a position after the end")
	}
}

// A commit that waits for a synchronous standby is in the log and not visible yet. The position of that time is not the
// one of later, when it is. Notifications have nothing to wait for.
func TestWritePositionBeforeVisible(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "fsync=off")
	here := openStore(t, server.URL())
	if err := here.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	alice := addCaller(t, here, "alice")
	server.Exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	server.Exec("SELECT pg_reload_conf()")
	db := server.Database()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // the server takes a moment until it lets commits wait
		defer close(ended)
		for {
			if _, err := here.CreateEvent(context.Background(), alice, newEvent("w")); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	servicetest.Eventually(t, 20*time.Second, "a commit waits", func() bool {
		return db.Count("pg_stat_activity WHERE query LIKE '%INTO events%' AND wait_event = 'SyncRep'") == 1
	})
	close(stop)
	newEar(t, server.URL()).awaitHearing(t) // notifications do not wait
	visible := db.Count("events")
	before, err := here.WritePosition(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.Exec("ALTER SYSTEM SET synchronous_standby_names = ''")
	server.Exec("SELECT pg_reload_conf()")
	<-ended
	if n := db.Count("events"); n != visible+1 {
		t.Fatalf("%d events are visible after %d", n, visible)
	}
	if after, err := here.WritePosition(t.Context()); err != nil || after == before {
		t.Errorf("%d, as before the event was visible, %v", after, err)
	}
}
