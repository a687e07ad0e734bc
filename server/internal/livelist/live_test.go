package livelist

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models"
	"worldevents/server/internal/eventlist"
)

// testLive tests the live lists of a new database by a clock that goes on whenever all goroutines wait. Of the writes of a second store
// nobody is told. In the end nothing may be left of those who waited.
func testLive(t *testing.T, test func(t *testing.T, l *Lists, other *models.Store)) {
	synctest.Test(t, func(t *testing.T) {
		options := models.Options{
			URL: "sqlite:" + filepath.Join(t.TempDir(), "db"), Timeout: 2 * time.Minute, // SQLite waits for its lock by the machine's clock
			Sessions: models.SessionPolicy{TTL: time.Hour, ReuseLeeway: time.Minute, PerUser: 1},
		}
		var stores [2]*models.Store
		for i := range stores {
			store, err := models.Open(options)
			if err == nil {
				err = store.Migrate(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			stores[i] = store
		}
		lists := eventlist.New(stores[0], slog.New(slog.DiscardHandler), "http://localhost", []byte("a secret of the test"), 1<<20)
		l := New(stores[0], lists, Options{MaxWatches: 1000, MaxAnswering: 4})
		l.Listen()
		defer l.hub.finish()
		test(t, l, stores[1])
		time.Sleep(2 * askInterval)
		synctest.Wait()
		if len(l.hub.worlds) > 0 && !l.hub.stopped || l.counts.watching.Load() != 0 {
			t.Errorf("%d worlds are left, %d wait", len(l.hub.worlds), l.counts.watching.Load())
		}
		for what, held := range l.Held() {
			if n := held(); n != 0 {
				t.Errorf("%d of %s are held", n, what)
			}
		}
	})
}

// finish ends the hub, and its goroutine.
func (h *hub) finish() {
	h.end()
	time.Sleep(2 * askRest)
}

func signIn(t *testing.T, store *models.Store, name string) models.Caller {
	t.Helper()
	var in models.SignIn
	rand.Read(in.Handle[:])
	rand.Read(in.Token[:])
	grant, err := store.SignIn(t.Context(), models.Who{Username: name}, true, in)
	if err != nil {
		t.Fatal(err)
	}
	return models.Caller{UserID: grant.ID, SessionID: grant.SessionID}
}

// addEvent creates an event.
func addEvent(t *testing.T, store *models.Store, caller models.Caller, world string) models.ID {
	t.Helper()
	id, err := store.CreateEvent(t.Context(), caller, models.Event{WorldID: world, Name: "n", ScheduledAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

var plaza = eventlist.Query{World: "plaza"}

// get returns the list as it is now.
func (l *Lists) get(t *testing.T, caller models.Caller, q eventlist.Query) *httptest.ResponseRecorder {
	t.Helper()
	res := httptest.NewRecorder()
	list, err := l.lists.Get(t.Context(), q, eventlist.Caller{Caller: caller})
	if err == nil {
		err = list.Write(res, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (l *Lists) etag(t *testing.T, caller models.Caller, q eventlist.Query) string {
	t.Helper()
	return l.get(t, caller, q).Header().Get("Etag")
}

// awaiting is a request that waits.
type awaiting struct {
	*httptest.ResponseRecorder
	err  error
	done chan struct{}

	readDeadline time.Time
	write        func() // is called with each write
}

// SetReadDeadline is for http.ResponseController.
func (a *awaiting) SetReadDeadline(t time.Time) error {
	a.readDeadline = t
	return nil
}

// Write implements http.ResponseWriter.
func (a *awaiting) Write(p []byte) (int, error) {
	a.write()
	return a.ResponseRecorder.Write(p)
}

// begin has a request wait for news of a list that has the ETag, and returns at once.
func (l *Lists) begin(ctx context.Context, caller models.Caller, q eventlist.Query, etag string, wait time.Duration) *awaiting {
	a := &awaiting{ResponseRecorder: httptest.NewRecorder(), done: make(chan struct{}), readDeadline: time.Now().Add(10 * time.Second), write: func() {}}
	l.run(ctx, a, caller, q, etag, wait)
	return a
}

func (l *Lists) run(ctx context.Context, a *awaiting, caller models.Caller, q eventlist.Query, etag string, wait time.Duration) {
	go func() {
		defer close(a.done)
		var list *Watch
		list, a.err = l.Watch(ctx, q, eventlist.Caller{Caller: caller, Tags: eventlist.EntityTags([]string{etag})}, time.Now().Add(wait))
		if a.err == nil {
			a.err = list.Write(a)
		}
	}()
}

// is fails the test unless the response comes, with this status.
func (a *awaiting) is(t *testing.T, status int) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(time.Minute):
		t.Fatal("no response")
	}
	if a.err != nil || a.Code != status {
		t.Errorf("%d %v, want %d", a.Code, a.err, status)
	}
}

// waits fails the test unless so many requests wait.
func (l *Lists) waits(t *testing.T, n int64) {
	t.Helper()
	synctest.Wait()
	if waiting := l.counts.watching.Load(); waiting != n {
		t.Fatalf("%d wait instead of %d", waiting, n)
	}
}

// What is written between the look at a list and the waiting for it is told at once, also when the question about it is over by then.
func TestWriteBeforeWaiting(t *testing.T) {
	testLive(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice, "plaza")
		etag := l.etag(t, alice, plaza)
		other := l.begin(t.Context(), alice, eventlist.Query{World: "elsewhere"}, l.etag(t, alice, eventlist.Query{World: "elsewhere"}), 3*time.Second)
		l.waits(t, 1)
		var once sync.Once
		beforeAwait = func() {
			once.Do(func() {
				addEvent(t, l.store, alice, "plaza")
				time.Sleep(askInterval / 2)
			})
		}
		defer func() { beforeAwait = func() {} }()
		a := l.begin(t.Context(), alice, plaza, etag, 20*time.Second)
		from := time.Now()
		a.is(t, 200)
		if took := time.Since(from); took > askInterval/2+worldRest {
			t.Errorf("told after %v", took)
		}
		other.is(t, 304)
	})
}

// What other processes write, of which nobody is told, is found within little more than a second, while a hundred worlds are watched.
func TestUntoldWrites(t *testing.T) {
	testLive(t, func(t *testing.T, l *Lists, other *models.Store) {
		const worlds = 100
		alice := signIn(t, l.store, "alice")
		for range 5 {
			var all []*awaiting
			for i := range worlds {
				q := eventlist.Query{World: fmt.Sprint(i)}
				all = append(all, l.begin(t.Context(), alice, q, l.etag(t, alice, q), 50*time.Second))
			}
			l.waits(t, worlds)
			time.Sleep(time.Duration(mathrand.IntN(3000)) * time.Millisecond)
			for i := range worlds {
				addEvent(t, other, alice, fmt.Sprint(i))
			}
			from := time.Now()
			for _, a := range all {
				a.is(t, 200)
			}
			if took := time.Since(from); took > askInterval+worldRest+askRest {
				t.Errorf("found after %v", took)
			}
		}
	})
}

// Who waits for a world is woken four times a second at most, however often it is written to, and comes back once each time to a list
// that has changed meanwhile. One question is about many writes.
func TestRests(t *testing.T) {
	testLive(t, func(t *testing.T, l *Lists, other *models.Store) {
		alice := signIn(t, l.store, "alice")
		id := addEvent(t, l.store, alice, "plaza")
		var questions, changes atomic.Int64
		l.hub.ask = func(ctx context.Context, m models.Moment) (models.ChangedWorlds, error) {
			questions.Add(1)
			return l.store.WorldsSince(ctx, m)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		defer wait.Wait() // after a failure, too: it would ask without end, and the clock stand still
		defer cancel()
		wait.Go(func() {
			for etag := "none"; ctx.Err() == nil; {
				a := l.begin(ctx, alice, plaza, etag, 20*time.Second)
				<-a.done
				if a.Code == 200 {
					changes.Add(1)
					etag = a.Header().Get("Etag")
				}
			}
		})
		const seconds = 3
		for i := range 500 * seconds {
			name := fmt.Sprint("name ", i)
			if _, err := l.store.EditEvent(ctx, id, models.EventEdit{Name: &name}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond)
		}
		if n := changes.Load(); n > 2*4*seconds+2 || n < 2*seconds {
			t.Errorf("%d new lists in %d s", n, seconds)
		}
		if n := questions.Load(); n > seconds*int64(time.Second/askRest)+1 || n < 2*seconds {
			t.Errorf("%d questions in %d s", n, seconds)
		}
	})
}

// What is written while a world rests that was woken a moment ago is told when its rest is over.
func TestWriteDuringRest(t *testing.T) {
	testLive(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		etag := l.etag(t, alice, plaza)
		from := time.Now()
		for range 5 {
			a := l.begin(t.Context(), alice, plaza, etag, 20*time.Second)
			l.waits(t, 1)
			addEvent(t, l.store, alice, "plaza")
			a.is(t, 200)
			etag = a.Header().Get("Etag")
		}
		if took := time.Since(from); took < 4*worldRest || took > 6*worldRest {
			t.Errorf("told five times in %v", took)
		}
	})
}

// While those who have waited have their responses written, few at once, others are served.
func TestFewAnswersAtOnce(t *testing.T) {
	testLive(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice, "plaza")
		etag := l.etag(t, alice, plaza)
		var writing, most atomic.Int32
		goOn := make(chan struct{})
		write := func() {
			most.Store(max(most.Load(), writing.Add(1)))
			<-goOn
			writing.Add(-1)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		var all []*awaiting
		for i := range 100 {
			caller := alice
			if i > 0 {
				caller = signIn(t, l.store, fmt.Sprint("user ", i%9))
			}
			a := &awaiting{ResponseRecorder: httptest.NewRecorder(), done: make(chan struct{}), write: write}
			from := t.Context()
			if i == 99 {
				from = ctx
			}
			l.run(from, a, caller, plaza, etag, 20*time.Second)
			all = append(all, a)
			l.waits(t, int64(i+1))
		}
		time.Sleep(time.Second) // the first question is about all that was ever written
		addEvent(t, l.store, alice, "plaza")
		time.Sleep(2 * askRest)
		synctest.Wait()
		hangUp() // while its news waits for its turn
		l.get(t, alice, plaza)
		l.get(t, alice, eventlist.Query{World: "elsewhere"})
		addEvent(t, l.store, alice, "plaza")
		close(goOn)
		for i, a := range all {
			if <-a.done; i == 99 && errors.Is(a.err, eventlist.ErrClientGone) {
				continue // it was none of the first
			}
			if a.err != nil || a.Code != 200 {
				t.Errorf("%d: %d %v", i, a.Code, a.err)
			}
		}
		if n := most.Load(); n != 4 {
			t.Errorf("%d were written at once", n)
		}
	})
}

// The time that a request has for the database does not pass while it waits, and what net/http gives the client to send the request
// in does not end the wait.
func TestWaitingIsNotCutShort(t *testing.T) {
	testLive(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice, "plaza")
		deadline := time.Now().Add(time.Second)
		a := l.begin(context.WithValue(t.Context(), models.Deadline{}, deadline), alice, plaza, l.etag(t, alice, plaza), 20*time.Second)
		l.waits(t, 1)
		if !a.readDeadline.IsZero() {
			t.Errorf("the connection is read until %v", a.readDeadline)
		}
		time.Sleep(time.Until(deadline))
		addEvent(t, l.store, alice, "plaza")
		a.is(t, 200)
	})
}

// A hub that cannot ask goes on asking about the same and more, and wakes each world that has changed.
func TestQuestionsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var questions, later atomic.Int64 // later ones are about less
		var fail atomic.Bool
		h := newHub(func(_ context.Context, m models.Moment) (models.ChangedWorlds, error) {
			if questions.Add(1); !m.IsZero() {
				later.Add(1)
			}
			if fail.Load() {
				return models.ChangedWorlds{All: true}, errors.New("away")
			}
			return models.ChangedWorlds{Names: []string{"a"}}, nil
		})
		defer h.finish()
		fail.Store(true)
		a, b := h.register("a"), h.register("b")
		h.hear(true)
		written := time.Now()
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		if len(a.changed)+len(b.changed) > 0 || questions.Load() < 6 {
			t.Errorf("%d and %d are woken after %d questions", len(a.changed), len(b.changed), questions.Load())
		}
		fail.Store(false)
		time.Sleep(askInterval)
		synctest.Wait()
		if len(b.changed) > 0 || len(a.changed) != 1 || !(<-a.changed).Equal(written) {
			t.Error("another is woken, or another write is why")
		}
		if n := later.Load(); n > 0 {
			t.Errorf("%d questions are about less than the first", n)
		}
		h.forget(a)
		h.forget(b)
	})
}
