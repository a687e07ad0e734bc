package eventlist

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models"
	"worldevents/server/internal/backpressure"
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
		l := New(store, "http://localhost", []byte("a secret of the test"), 1<<20)
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

var plaza = Query{World: "plaza"}

// A long list is held, with an ETag, as long as one of those who share its reading does not hold too much already: what others hold
// costs them nothing.
func TestLongLists(t *testing.T) {
	testLists(t, func(t *testing.T, l *Lists) {
		alice, bob := signIn(t, l.store, "alice"), signIn(t, l.store, "bob")
		for range 120 {
			if _, err := l.store.CreateEvent(t.Context(), alice, models.Event{WorldID: "plaza", Name: "n", Description: strings.Repeat("d", 5000),
				ScheduledAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
				t.Fatal(err)
			}
		}
		const share = maxMemory / 8
		key := readKey{world: plaza.World}
		for _, test := range []struct {
			alice, bob int // what they hold
			callers    []models.Caller
			want       bool
		}{
			{0, 0, []models.Caller{alice}, true},
			{share - streamBytes, share, []models.Caller{alice}, true},
			{share - streamBytes + 1, 0, []models.Caller{alice}, false},
			{share, 0, []models.Caller{bob}, true},
			{share, share - streamBytes, []models.Caller{alice, bob}, true},
			{share, share, []models.Caller{alice, bob}, false},
		} {
			l.cache.put(cached{key: key})
			if !l.held.memory.Try(alice.UserID, test.alice) || !l.held.memory.Try(bob.UserID, test.bob) {
				t.Fatal("no room")
			}
			r := &sharedRead{key: key, options: models.ListOptions{WorldID: plaza.World}, callers: test.callers}
			err := l.read(t.Context(), r)
			if err != nil || (r.held != nil) != test.want || r.held != nil && len(r.held.json) <= maxShort || r.begun != nil {
				t.Errorf("%+v: %v, held %t, begun with %d bytes", test, err, r.held != nil, len(r.begun))
			}
			if n := l.held.memory.Held(); n != test.alice+test.bob {
				t.Errorf("%+v: %d bytes are held once it is read", test, n)
			}
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
			if err := l.read(t.Context(), r); err != nil {
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
		if err := l.read(t.Context(), r); err != nil || !r.signedOut[gone] || r.held != nil && r.how != wayCached {
			t.Errorf("of nobody: %v, %+v", err, r)
		}
	})
}

// A user reads few lists at once. Who wants more waits, in turn, for so long at most, and few do.
func TestReadingOfOneUser(t *testing.T) {
	testLists(t, func(t *testing.T, l *Lists) {
		var busy atomic.Int32
		var inFlight atomic.Int64 // less those that are queued
		request := func() context.Context {
			inFlight.Add(1)
			conn := new(backpressure.Conn)
			conn.Begin(&backpressure.Request{InFlight: &inFlight})
			return backpressure.NewContext(t.Context(), conn)
		}
		user := models.ID{1}
		for i := range maxReading {
			if ctx, _, err := l.BeginReading(t.Context(), user); ctx != t.Context() || err != nil {
				t.Errorf("list %d waited: %v", i, err)
			}
		}
		ctx, end, err := l.BeginReading(t.Context(), models.ID{2})
		if ctx != t.Context() || err != nil {
			t.Errorf("another user waited: %v", err)
		}
		end()
		var admitted []int
		for i := range maxReadQueue {
			go func() {
				ctx := request()
				reading, _, err := l.BeginReading(ctx, user)
				if errors.Is(err, models.ErrBusy) {
					busy.Add(1)
				} else if err == nil && reading != ctx {
					admitted = append(admitted, i)
				}
			}()
			synctest.Wait()
		}
		if _, _, err := l.BeginReading(t.Context(), user); !errors.Is(err, models.ErrBusy) || inFlight.Load() != 0 {
			t.Errorf("%v while %d are in flight", err, inFlight.Load())
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
		if busy.Load() != maxReadQueue-2 || inFlight.Load() != maxReadQueue {
			t.Errorf("%d were refused, %d are in flight", busy.Load(), inFlight.Load())
		}
		l.held.reading.Release(user, maxReading)
	})
}

// A stream has a minute, and a second for each 16 KiB that it has written.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for written, want := range map[int]time.Duration{0: time.Minute, 160 << 10: 70 * time.Second} {
			w := beginStream(httptest.NewRecorder())
			w.write(make([]byte, written))
			time.Sleep(want)
			if err := w.check(t.Context()); err != nil {
				t.Errorf("%d bytes: %v", written, err)
			}
			time.Sleep(time.Nanosecond)
			if err := w.check(t.Context()); !errors.Is(err, ErrClientGone) {
				t.Errorf("%d bytes: %v after %v", written, err, want)
			}
		}
	})
}
