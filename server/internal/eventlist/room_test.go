package eventlist

import (
	"context"
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
		if !l.held.memory.Try(bob.UserID, maxMemory/16) {
			t.Fatal("no room")
		}
		held("while a sixteenth is held", true)
		l.held.memory.Try(bob.UserID, 1)
		held("while more is held", false)
		l.held.memory.Release(bob.UserID, maxMemory/16+1)
		l.held.longReads.Try(nobody, maxLongReads)
		held("while as many as may be are read", false)
		l.held.longReads.Release(nobody, 1)
		held("while one more may be read", true)
		l.held.longReads.Release(nobody, maxLongReads-1)
	})
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
		l.held = newHoldings(WaitOptions{MaxWaiting: 16, MaxAnswering: 4})
		var callers []models.Caller
		for i := range 13 {
			callers = append(callers, signIn(t, l.store, string(rune('a'+i))))
		}
		addEvent(t, l.store, callers[0])
		etag := get(t, l, callers[0], plaza).Header().Get("Etag")
		waiting := 0
		for _, caller := range callers {
			for n := range 3 {
				a := begin(l, caller, plaza, etag, 10*time.Second)
				if waiting < 8 && n < 2 || waiting < 16 && n < 1 {
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

// A user reads few lists at once. Who wants more waits, in turn, for so long at most, and few do.
func TestReadingOfOneUser(t *testing.T) {
	testHub(t, func(t *testing.T, l *Lists, _ *models.Store) {
		var paused, busy atomic.Int32
		l.Pause = func(context.Context) func() { paused.Add(1); return func() { paused.Add(-1) } }
		user := models.ID{1}
		for i := range maxReading {
			if waited, err := l.beginReading(t.Context(), user); waited || err != nil {
				t.Errorf("list %d: %v, %v", i, waited, err)
			}
		}
		if waited, err := l.beginReading(t.Context(), models.ID{2}); waited || err != nil {
			t.Errorf("another user: %v, %v", waited, err)
		}
		l.held.reading.Release(models.ID{2}, 1)
		var admitted []int
		for i := range maxReadQueue {
			go func() {
				waited, err := l.beginReading(t.Context(), user)
				if errors.Is(err, models.ErrBusy) {
					busy.Add(1)
				} else if err == nil && waited {
					admitted = append(admitted, i)
				}
			}()
			synctest.Wait()
		}
		if _, err := l.beginReading(t.Context(), user); !errors.Is(err, models.ErrBusy) || paused.Load() != maxReadQueue {
			t.Errorf("%v while %d wait", err, paused.Load())
		}
		time.Sleep(maxReadWait - 1)
		for range 2 {
			l.held.reading.Release(user, 1)
			synctest.Wait()
		}
		if fmt.Sprint(admitted) != "[0 1]" || busy.Load() > 0 {
			t.Errorf("%v were admitted, %d refused", admitted, busy.Load())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if busy.Load() != maxReadQueue-2 || paused.Load() != 0 {
			t.Errorf("%d were refused, %d are paused", busy.Load(), paused.Load())
		}
		l.held.reading.Release(user, maxReading)
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
