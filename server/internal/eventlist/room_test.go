package eventlist

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models"
)

// A long list is held, with an ETag, only while others hold little and few long lists are being read.
func TestLongLists(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice, bob := signIn(t, l.store, "alice"), signIn(t, l.store, "bob")
		for range 120 {
			if _, err := l.store.CreateEvent(t.Context(), alice, models.Event{WorldID: "plaza", Name: "n", Description: strings.Repeat("d", 5000),
				ScheduledAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
				t.Fatal(err)
			}
		}
		held := func(when string, want bool) {
			t.Helper()
			res := get(t, l, alice, plaza)
			if n := res.Body.Len(); n < maxShort || (res.Header().Get("Etag") != "") != want {
				t.Errorf("%s: %d bytes, ETag %q", when, n, res.Header().Get("Etag"))
			}
		}
		held("at first", true)
		if !l.memory.acquire(bob.UserID, budgetBytes/16) {
			t.Fatal("no room")
		}
		held("while a sixteenth is held", true)
		l.memory.acquire(bob.UserID, 1)
		held("while more is held", false)
		l.memory.release(bob.UserID, budgetBytes/16+1)
		l.longReads.TryAcquire(maxLongReads)
		held("while as many as may be are read", false)
		l.longReads.Release(1)
		held("while one more may be read", true)
		l.longReads.Release(maxLongReads - 1)
	})
}

// A part of the budget is one user's at most, and the rest is for others.
func TestBudget(t *testing.T) {
	b := newBudget(10, 4)
	a, c, d := models.ID{1}, models.ID{2}, models.ID{3}
	for _, step := range []struct {
		user models.ID
		n    int
		want bool
	}{{a, 4, true}, {a, 1, false}, {c, 5, false}, {c, 4, true}, {d, 3, false}, {d, 2, true}, {models.ID{4}, 1, false}} {
		if got := b.acquire(step.user, step.n); got != step.want {
			t.Errorf("%d for %x: %v", step.n, step.user[0], got)
		}
	}
	b.release(a, 4)
	if b.used != 6 || len(b.users) != 2 || !b.acquire(a, 4) {
		t.Errorf("%d is used by %v", b.used, b.users)
	}
}

// Who was signed out meanwhile gets no list when it changes, while others get it.
func TestHubChangeAfterRevocation(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, other *models.Store) {
		alice, gone := signIn(t, l.store, "alice"), signIn(t, l.store, "gone")
		addEvent(t, l.store, alice)
		etag := get(t, l, alice, plaza).Header().Get("Etag")
		stays, leaves := begin(l, alice, plaza, etag, 20*time.Second), begin(l, gone, plaza, etag, 20*time.Second)
		l.hub.waits(t, 2)
		if _, err := other.RevokeSession(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		addEvent(t, l.store, alice)
		stays.is(t, 200)
		<-leaves.done
		if !errors.Is(leaves.err, models.ErrSignedOut) || leaves.Body.Len() > 0 {
			t.Errorf("%d %v, %d bytes", leaves.Code, leaves.err, leaves.Body.Len())
		}
	})
}

// A user has an eighth of the places at most, and who finds none gets the list at once.
func TestHubPlaces(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		l.hub.limit = 2 * shares
		var callers []models.Caller
		for i := range shares + 1 {
			callers = append(callers, signIn(t, l.store, string(rune('a'+i))))
		}
		addEvent(t, l.store, callers[0])
		etag := get(t, l, callers[0], plaza).Header().Get("Etag")
		waiting := 0
		for i, caller := range callers {
			for n := range 3 {
				a := begin(l, caller, plaza, etag, 10*time.Second)
				if i < shares && n < 2 {
					waiting++
				} else {
					a.is(t, 304)
				}
				l.hub.waits(t, waiting)
			}
		}
		time.Sleep(10 * time.Second)
	})
}

// A user reads few lists at once, each of them any number of times. Who wants more waits, in turn, for so long at most, and few do.
func TestUserLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := userLimiter{users: make(map[models.ID]*readingUser)}
		key := func(i int) readKey { return readKey{world: fmt.Sprint(i)} }
		var paused, busy atomic.Int32
		acquire := func(user models.ID, i int) (waited bool, err error) {
			return l.acquire(t.Context(), user, key(i), func() func() { paused.Add(1); return func() { paused.Add(-1) } })
		}
		user := models.ID{1}
		for i := range maxReading {
			for range 2 {
				if waited, err := acquire(user, i); waited || err != nil {
					t.Errorf("list %d: %v, %v", i, waited, err)
				}
			}
		}
		if waited, err := acquire(models.ID{2}, maxReading); waited || err != nil {
			t.Errorf("another user: %v, %v", waited, err)
		}
		l.release(models.ID{2}, key(maxReading))
		var admitted []int
		for i := range maxWaiting {
			go func() {
				waited, err := acquire(user, maxReading+i)
				if errors.Is(err, models.ErrBusy) {
					busy.Add(1)
				} else if err == nil && waited {
					admitted = append(admitted, i)
				}
			}()
			synctest.Wait()
		}
		if _, err := acquire(user, -1); !errors.Is(err, models.ErrBusy) || paused.Load() != maxWaiting {
			t.Errorf("%v while %d wait", err, paused.Load())
		}
		time.Sleep(maxLimiterWait - 1)
		for _, i := range []int{0, 0, 1, 1} {
			l.release(user, key(i))
			synctest.Wait()
		}
		if fmt.Sprint(admitted) != "[0 1]" || busy.Load() > 0 {
			t.Errorf("%v were admitted, %d refused", admitted, busy.Load())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if busy.Load() != maxWaiting-2 || paused.Load() != 0 || len(l.users[user].waiting) > 0 {
			t.Errorf("%d were refused, %d are paused", busy.Load(), paused.Load())
		}
		for i := 2; i < maxReading; i++ {
			l.release(user, key(i))
			l.release(user, key(i))
		}
		l.release(user, key(maxReading))
		l.release(user, key(maxReading+1))
		if len(l.users) > 0 {
			t.Error("the user is kept")
		}
	})
}

// What is written between the reading of a list and the waiting for it is told at once, and not only when the list is swept.
func TestHubWriteBeforeWaiting(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		alice := signIn(t, l.store, "alice")
		addEvent(t, l.store, alice)
		etag := get(t, l, alice, plaza).Header().Get("Etag")
		read, goOn := holdReading(t)
		a := begin(l, alice, plaza, etag, 20*time.Second)
		<-read
		addEvent(t, l.store, alice)
		close(goOn)
		from := time.Now()
		a.is(t, 200)
		if took := time.Since(from); took > hintRest {
			t.Errorf("told after %v", took)
		}
	})
}

// A stream has a minute, and a second for each 16 KiB that it has written.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for written, want := range map[int]time.Duration{0: time.Minute, 160 << 10: 70 * time.Second} {
			w := newPacedWriter(httptest.NewRecorder())
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
