package notify

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// recorder is where a notifier of a test sends to.
type recorder struct {
	began time.Time
	at    []time.Duration // when each sending began
	takes time.Duration
	err   error
}

func newRecorder() (*recorder, *notifier) {
	r := &recorder{began: time.Now()}
	return r, newNotifier(func(ctx context.Context) error {
		r.at = append(r.at, time.Since(r.began))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(r.takes):
			return r.err
		}
	})
}

// The first write after a rest is told at once. Those that follow share one notification in an interval.
func TestNotifierGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRecorder()
		for range 3 {
			n.tell()
			synctest.Wait()
			for range 100 {
				n.tell()
			}
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
		n.close()
		if len(r.at) != 6 || n.sent.Load() != 6 {
			t.Errorf("sent %d, counted %d", len(r.at), n.sent.Load())
		}
		for i, at := range r.at {
			if want := time.Duration(i/2)*10*time.Second + time.Duration(i%2)*notifyInterval; at != want {
				t.Errorf("sending %d after %v, want %v", i, at, want)
			}
		}
	})
}

// However writes come, and however long the database takes: after each a notification begins, no two are on their way at once, and they
// are an interval apart.
func TestNotifierModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failure any
		synctest.Test(t, func(*testing.T) {
			defer func() { failure = recover() }() // rapid goes on outside
			var begun, ended time.Time             // of the last sending
			var busy, writes, told atomic.Int64
			takes := rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(0, 80).Draw(t, "ms")) * time.Millisecond
			})
			var next atomic.Int64 // how long the next sending takes
			n := newNotifier(func(context.Context) error {
				if busy.Add(1) > 1 || !ended.IsZero() && time.Since(ended) < notifyInterval {
					rt.Errorf("a sending begins %v after the last one began, %v after it ended", time.Since(begun), time.Since(ended))
				}
				begun = time.Now()
				told.Store(writes.Load())
				time.Sleep(time.Duration(next.Load()))
				ended = time.Now()
				busy.Add(-1)
				return nil
			})
			for range rapid.IntRange(1, 40).Draw(rt, "writes") {
				next.Store(int64(takes.Draw(rt, "takes")))
				writes.Add(1)
				n.tell()
				time.Sleep(takes.Draw(rt, "pause"))
			}
			time.Sleep(time.Second)
			if told.Load() != writes.Load() {
				rt.Errorf("the last notification began after %d of %d writes", told.Load(), writes.Load())
			}
			n.close()
		})
		if failure != nil {
			panic(failure)
		}
	})
}

// What cannot be sent is forgotten, and the next write is told.
func TestNotifierWhileDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRecorder()
		r.err = errAway
		n.tell()
		time.Sleep(time.Minute)
		r.err = nil
		n.tell()
		synctest.Wait()
		if len(r.at) != 2 || n.sent.Load() != 1 {
			t.Errorf("%d attempts, %d counted", len(r.at), n.sent.Load())
		}
		n.close()
	})
}

// Closing sends what is pending, and does not wait for long.
func TestNotifierClose(t *testing.T) {
	for _, test := range []struct {
		name  string
		begin func(r *recorder, n *notifier)
		takes time.Duration
		sent  int
	}{
		{"unused", func(*recorder, *notifier) {}, 0, 0},
		{"at once", func(_ *recorder, n *notifier) { n.tell() }, 0, 1},
		{"between two", func(_ *recorder, n *notifier) { n.tell(); synctest.Wait(); n.tell(); synctest.Wait() }, 0, 2},
		{"long after", func(_ *recorder, n *notifier) { n.tell(); time.Sleep(time.Hour) }, 0, 1},
		{"away", func(r *recorder, n *notifier) { r.err = errAway; n.tell() }, 0, 0},
		{"no response", func(r *recorder, n *notifier) { r.takes = time.Hour; n.tell(); synctest.Wait(); n.tell() }, 2 * notifyTimeout, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, n := newRecorder()
				test.begin(r, n)
				begin := time.Now()
				n.close()
				if took := time.Since(begin); took != test.takes || n.sent.Load() != uint64(test.sent) {
					t.Errorf("took %v, want %v; sent %d, want %d", took, test.takes, n.sent.Load(), test.sent)
				}
				n.close()
			})
		})
	}
}

var errAway = errors.New("away")
