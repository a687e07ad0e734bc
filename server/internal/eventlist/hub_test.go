package eventlist

import (
	"bytes"
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
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// newTestLists returns the lists of a new database, and a second store of it, whose writes give the lists no hint.
func newTestLists(t *testing.T, waiting int) (*Lists, *models.Store) {
	t.Helper()
	options := models.Options{
		URL: "sqlite:" + filepath.Join(t.TempDir(), "db"), Timeout: 20 * time.Second,
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
	l := New(stores[0], "http://localhost", []byte("a secret of the test"), WaitOptions{MaxWaiting: waiting, MaxAnswering: 4})
	l.Listen(slog.New(slog.DiscardHandler))
	return l, stores[1]
}

func signIn(t *testing.T, store *models.Store, name string) models.Caller {
	t.Helper()
	var in models.SignIn
	rand.Read(in.Handle[:])
	rand.Read(in.Token[:])
	grant, err := store.SignIn(t.Context(), name, true, in)
	if err != nil {
		t.Fatal(err)
	}
	return models.Caller{UserID: grant.ID, SessionID: grant.SessionID}
}

// get returns the list as it is now.
func get(t *testing.T, l *Lists, caller models.Caller, q Query) *httptest.ResponseRecorder {
	t.Helper()
	res := httptest.NewRecorder()
	list, err := l.Get(t.Context(), q, Caller{Caller: caller})
	if err == nil {
		err = list.Write(res)
	}
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// watch asks for a list again and again as those do who follow it, until ctx ends, and keeps the latest.
type watch struct {
	query  Query
	caller models.Caller
	mu     sync.Mutex
	etag   string
	body   []byte
	err    error
	calls  atomic.Int64
}

func (w *watch) run(ctx context.Context, l *Lists) {
	for ctx.Err() == nil {
		var tags []string
		if w.etag != "" {
			tags = []string{w.etag}
		}
		wait := time.Duration(mathrand.IntN(3000)) * time.Millisecond
		w.calls.Add(1)
		list, err := l.Wait(ctx, w.query, Caller{Caller: w.caller, IfNoneMatch: tags}, time.Now().Add(wait))
		res := httptest.NewRecorder()
		if err == nil {
			err = list.Write(res)
		}
		w.mu.Lock()
		if w.err = err; err == nil && res.Code == 200 {
			w.etag, w.body = res.Header().Get("Etag"), bytes.Clone(res.Body.Bytes())
		}
		w.mu.Unlock()
		if errors.Is(err, models.ErrSignedOut) {
			return
		}
	}
}

// Whatever is written while lists are followed, by this instance or by another process, the latest list that each
// follower has is in the end the one that everybody gets; and nothing is left behind.
func TestHubHistory(t *testing.T) {
	l, other := newTestLists(t, 1000)
	const users, worlds, followers = 8, 4, 60
	var callers []models.Caller
	for i := range users {
		callers = append(callers, signIn(t, l.store, fmt.Sprint("user ", i)))
	}
	gone := signIn(t, l.store, "gone")
	limit := int32(3)
	from := gen.DateTime(time.Date(2030, 1, 10, 0, 0, 0, 0, time.UTC))
	queries := []func(world string) Query{
		func(world string) Query { return Query{World: world} },
		func(world string) Query {
			return Query{World: world, Raw: "limit=3", Params: gen.ListEventsParams{Limit: &limit}}
		},
		func(world string) Query {
			return Query{World: world, Raw: "from=2030-01-10T00:00:00Z", Params: gen.ListEventsParams{From: &from}}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all []*watch
	var wait sync.WaitGroup
	for i := range followers {
		w := &watch{query: queries[i%len(queries)](fmt.Sprint("world ", i%worlds)), caller: callers[i%users]}
		if i%10 == 9 {
			w.caller = gone
		}
		all = append(all, w)
		wait.Go(func() { w.run(ctx, l) })
	}
	var events []models.ID
	for step := range 300 {
		store, caller := l.store, callers[mathrand.IntN(users)]
		if mathrand.IntN(3) == 0 {
			store = other
		}
		var err error
		switch n := mathrand.IntN(10); {
		case len(events) < 4 || n == 0 && len(events) < 30:
			var id models.ID
			id, err = store.CreateEvent(ctx, caller, models.Event{WorldID: fmt.Sprint("world ", mathrand.IntN(worlds)), Name: "n",
				ScheduledAt: time.Date(2030, 1, 1+mathrand.IntN(20), 0, 0, 0, 0, time.UTC)})
			events = append(events, id)
		case n < 6:
			err = store.JoinEvent(ctx, caller, events[mathrand.IntN(len(events))])
		default:
			err = store.LeaveEvent(ctx, caller, events[mathrand.IntN(len(events))])
		}
		if err != nil {
			t.Fatal(err)
		}
		if step == 150 {
			if _, err := other.RevokeSession(ctx, gone); err != nil {
				t.Fatal(err)
			}
		}
		if mathrand.IntN(4) == 0 {
			time.Sleep(time.Duration(mathrand.IntN(40)) * time.Millisecond)
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for _, w := range all {
		for {
			w.mu.Lock()
			etag, body, err := w.etag, w.body, w.err
			w.mu.Unlock()
			if w.caller == gone && errors.Is(err, models.ErrSignedOut) {
				break
			}
			want := get(t, l, callers[0], w.query)
			if w.caller != gone && etag == want.Header().Get("Etag") && bytes.Equal(body, want.Body.Bytes()) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v has %s %s (%v), want %s %s", w.query, etag, body, err, want.Header().Get("Etag"), want.Body)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	cancel()
	wait.Wait()
	l.hub.mustBeEmpty(t)
	if l.memory.used != 0 || len(l.limiter.users) != 0 {
		t.Errorf("%d bytes, %d users", l.memory.used, len(l.limiter.users))
	}
}

// mustBeEmpty fails the test unless nothing is left of those who waited.
func (h *hub) mustBeEmpty(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		h.mu.Lock()
		left := fmt.Sprintf("%d wait, %d places of %d users, %d lists, %d hints, %d events of %d users, %d queued", h.watching, h.entered,
			len(h.byUser), len(h.watched), len(h.index.lists), h.index.events, len(h.index.byUser), len(h.queue.urgent)+len(h.queue.later))
		h.mu.Unlock()
		if left == "0 wait, 0 places of 0 users, 0 lists, 0 hints, 0 events of 0 users, 0 queued" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(left)
		}
	}
}

// A list is read at most four times a second, however often it is written.
func TestHubRate(t *testing.T) {
	l, _ := newTestLists(t, 1000)
	alice := signIn(t, l.store, "alice")
	id, err := l.store.CreateEvent(t.Context(), alice, models.Event{WorldID: "plaza", Name: "n", ScheduledAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 100 {
		w := &watch{query: Query{World: "plaza"}, caller: alice}
		wait.Go(func() { w.run(ctx, l) })
	}
	begin := time.Now()
	for time.Since(begin) < 3*time.Second {
		l.hub.hinted(models.OwnWrite, models.EventHint(id), models.WorldHint("plaza")) // the list stays the same
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begin)
	var readings uint64
	for _, n := range l.hub.counts.Readings() {
		readings += n.Load()
	}
	if most := uint64(took.Seconds()*maxRate) + maxRate + 1; readings > most || readings < 4 {
		t.Errorf("%d readings in %v", readings, took)
	}
	cancel()
	wait.Wait()
	l.hub.mustBeEmpty(t)
}
