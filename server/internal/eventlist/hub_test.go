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
	"testing"
	"testing/synctest"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// testHub tests the lists of a new database by a clock that goes on whenever all goroutines wait. The writes of a second store
// of the database give the lists no hint. In the end nothing may be left of those who waited.
func testHub(t *testing.T, test func(t *testing.T, l *Lists, other *models.Store)) {
	synctest.Test(t, func(t *testing.T) {
		l, other := newTestLists(t)
		test(t, l, other)
		time.Sleep(2 * lingering)
		synctest.Wait()
		h := l.hub
		left := fmt.Sprintf("%d wait, %d lists, %d hints, %d events of %d users, %d queued", h.watching,
			len(h.watched), len(h.index.lists), h.index.events, len(h.index.byUser), h.later)
		if left != "0 wait, 0 lists, 0 hints, 0 events of 0 users, 0 queued" {
			t.Error(left)
		}
		for what, held := range l.Held() {
			if n := held(); n != 0 {
				t.Errorf("%d of %s are held", n, what)
			}
		}
	})
}

func newTestLists(t *testing.T) (*Lists, *models.Store) {
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
	l := New(stores[0], "http://localhost", []byte("a secret of the test"), WaitOptions{MaxWaiting: 1000, MaxAnswering: 4})
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
	etag   string
	body   []byte
	err    error
}

func (w *watch) run(ctx context.Context, l *Lists) {
	for ctx.Err() == nil {
		var tags []string
		if w.etag != "" {
			tags = []string{w.etag}
		}
		wait := time.Duration(mathrand.IntN(3000)) * time.Millisecond
		list, err := l.Wait(ctx, w.query, Caller{Caller: w.caller, IfNoneMatch: tags}, time.Now().Add(wait))
		res := httptest.NewRecorder()
		if err == nil {
			err = list.Write(res)
		}
		if w.err = err; err == nil && res.Code == 200 {
			w.etag, w.body = res.Header().Get("Etag"), res.Body.Bytes()
		}
		if errors.Is(err, models.ErrSignedOut) {
			return
		}
	}
}

// Whatever is written while lists are followed, by this instance or by another process, the latest list that each
// follower has is in the end the one that everybody gets; and nothing is left behind.
func TestHubHistory(t *testing.T) { testHub(t, testHubHistory) }

func testHubHistory(t *testing.T, l *Lists, other *models.Store) {
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
	time.Sleep(10 * time.Second) // all waits end within 3, and sweeps find the rest
	cancel()
	wait.Wait()
	for _, w := range all {
		want := get(t, l, callers[0], w.query)
		switch {
		case w.caller == gone:
			if !errors.Is(w.err, models.ErrSignedOut) {
				t.Errorf("whose session was revoked has %v", w.err)
			}
		case w.etag != want.Header().Get("Etag") || !bytes.Equal(w.body, want.Body.Bytes()):
			t.Errorf("%v has %s %s, want %s %s", w.query, w.etag, w.body, want.Header().Get("Etag"), want.Body)
		}
	}
}

// A list is read at most four times a second, however often it is written.
func TestHubRate(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		id := addEvent(t, l.store, alice)
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for range 100 {
			w := &watch{query: plaza, caller: alice}
			wait.Go(func() { w.run(ctx, l) })
		}
		const seconds = 3
		for range 1000 * seconds {
			l.hub.hinted(models.OwnWrite, models.EventHint(id), models.WorldHint("plaza")) // the list stays the same
			time.Sleep(time.Millisecond)
		}
		var readings uint64
		for _, n := range l.hub.counts.Readings() {
			readings += n.Load()
		}
		if readings > maxRate*seconds+1 || readings < maxRate*seconds-1 {
			t.Errorf("%d readings in %d s", readings, seconds)
		}
		cancel()
		wait.Wait()
	})
}
