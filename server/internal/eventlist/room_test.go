package eventlist

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models"
	"worldevents/server/internal/inflight"
)

// testLists tests the lists of a new database by a clock that goes on whenever all goroutines wait. In the end nothing may be held.
func testLists(t *testing.T, test func(t *testing.T, l *Lists)) {
	synctest.Test(t, func(t *testing.T) {
		store, err := models.Open(models.Options{
			URL: "sqlite:" + filepath.Join(t.TempDir(), "db"), Timeout: 20 * time.Second,
			Sessions: models.SessionPolicy{TTL: time.Hour, ReuseLeeway: time.Minute, PerUser: 1},
		})
		if err == nil {
			err = store.Migrate(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		l := New(store, slog.New(slog.DiscardHandler), "http://localhost", []byte("a secret of the test"), 1<<20)
		test(t, l)
		for what, held := range l.Held() {
			if n := held(); n != 0 {
				t.Errorf("%d of %s are held", n, what)
			}
		}
	})
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

// reading is the context of a reading.
func reading(t *testing.T) context.Context {
	return context.WithValue(t.Context(), models.Deadline{}, time.Now().Add(models.ListTimeout))
}

var plaza = Query{World: "plaza"}

// A long list is read as long as one of those who share its reading does not hold too much already: what others hold costs them nothing.
// Who is refused that way has one connection less for a while.
func TestLongLists(t *testing.T) {
	testLists(t, func(t *testing.T, l *Lists) {
		alice, bob := signIn(t, l.store, "alice"), signIn(t, l.store, "bob")
		for range 120 {
			if _, err := l.store.CreateEvent(t.Context(), alice, models.Event{WorldID: "plaza", Name: "n", Description: strings.Repeat("d", 5000),
				ScheduledAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
				t.Fatal(err)
			}
		}
		const share = maxMemory / 2
		key := readKey{world: plaza.World}
		for _, test := range []struct {
			alice, bob int // what they hold
			callers    []models.Caller
			want       error
		}{
			{0, 0, []models.Caller{alice}, nil},
			{share - roomStep, 0, []models.Caller{alice}, nil},
			{share - roomStep + 1, 0, []models.Caller{alice}, models.ErrBusy},
			{share, 0, []models.Caller{bob}, nil}, // few
			{share, 0, []models.Caller{alice, bob}, nil},
			{share, roomStep, []models.Caller{alice, bob}, models.ErrBusy},
		} {
			l.cache.put(cached{key: key})
			if !l.held.memory.Try(alice.UserID, test.alice) || !l.held.memory.Try(bob.UserID, test.bob) {
				t.Fatal("no room")
			}
			r := &sharedRead{key: key, options: models.ListOptions{WorldID: plaza.World}, callers: test.callers}
			err := l.read(reading(t), r)
			if !errors.Is(err, test.want) || (err == nil) != (r.held != nil && len(r.held.json) > maxOwn) {
				t.Errorf("%+v: %v, held %t", test, err, r.held != nil)
			}
			for _, want := range []int{roomStep, 0} { // until a response holds the list
				if n := l.held.memory.Held() - test.alice - test.bob; n != want && err == nil {
					t.Errorf("%+v: %d bytes are held by the reading, not %d", test, n, want)
				}
				r.room.release()
			}
			if n := l.held.readers.Held(); n > 0 != (err != nil) {
				t.Errorf("%+v: %d connections are held after %v", test, n, err)
			}
			time.Sleep(inVainTime)
			synctest.Wait()
			l.held.memory.Release(alice.UserID, test.alice)
			l.held.memory.Release(bob.UserID, test.bob)
		}
	})
}

// Of those who share a reading each is looked up, whether the list is new, kept, or one that changes all the time.
func TestSharedReadingChecksEach(t *testing.T) {
	testLists(t, func(t *testing.T, l *Lists) {
		alice, bob, gone := signIn(t, l.store, "alice"), signIn(t, l.store, "bob"), models.Caller{UserID: models.ID{1}, SessionID: models.ID{2}}
		key := readKey{world: plaza.World}
		for n, how := range []way{wayShared, wayCached, wayShared, wayShared, wayShared, wayShared, wayCached} {
			r := &sharedRead{key: key, options: models.ListOptions{WorldID: plaza.World}, callers: []models.Caller{alice, gone, bob, alice}}
			if err := l.read(reading(t), r); err != nil {
				t.Fatal(err)
			}
			if len(r.signedOut) != 1 || !r.signedOut[gone] || r.how != how {
				t.Errorf("reading %d, %s: signed out are %v", n, r.how, r.signedOut)
			}
			if n == 0 || n > 4 {
				continue
			}
			if _, err := l.store.CreateEvent(t.Context(), alice, models.Event{WorldID: "plaza", Name: "n", ScheduledAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
				t.Fatal(err)
			}
		}
		r := &sharedRead{key: key, options: models.ListOptions{WorldID: plaza.World}, callers: []models.Caller{gone, gone}}
		if err := l.read(reading(t), r); err != nil || !r.signedOut[gone] || r.held != nil && r.how != wayCached {
			t.Errorf("of nobody: %v, %+v", err, r)
		}
	})
}

// A user reads few lists at once. Who wants more waits, in turn, for so long at most, and few do.
func TestReadingOfOneUser(t *testing.T) {
	testLists(t, func(t *testing.T, l *Lists) {
		var busy atomic.Int32
		places := inflight.New(1000) // less those that are queued
		request := func() context.Context {
			place := new(inflight.Place)
			places.Take(place)
			return context.WithValue(t.Context(), inflight.ContextKey{}, place)
		}
		user := models.ID{1}
		for i := range maxReading {
			if ctx, _, err := l.beginReading(t.Context(), user); ctx != t.Context() || err != nil {
				t.Errorf("list %d waited: %v", i, err)
			}
		}
		ctx, end, err := l.beginReading(t.Context(), models.ID{2})
		if ctx != t.Context() || err != nil {
			t.Errorf("another user waited: %v", err)
		}
		end()
		var admitted []int
		for i := range maxReadQueue {
			go func() {
				ctx := request()
				reading, _, err := l.beginReading(ctx, user)
				if errors.Is(err, models.ErrBusy) {
					busy.Add(1)
				} else if err == nil && reading != ctx {
					admitted = append(admitted, i)
				}
			}()
			synctest.Wait()
		}
		if _, _, err := l.beginReading(t.Context(), user); !errors.Is(err, models.ErrBusy) || places.Held() != 0 {
			t.Errorf("%v while %d are in flight", err, places.Held())
		}
		time.Sleep(maxReadQueueTime - 1)
		for range 2 {
			l.held.reading.Release(user, 1)
			synctest.Wait()
		}
		if fmt.Sprint(admitted) != "[0 1]" || busy.Load() > 0 {
			t.Errorf("%v were admitted, %d refused", admitted, busy.Load())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if busy.Load() != maxReadQueue-2 || places.Held() != maxReadQueue {
			t.Errorf("%d were refused, %d are in flight", busy.Load(), places.Held())
		}
		l.held.reading.Release(user, maxReading)
	})
}
