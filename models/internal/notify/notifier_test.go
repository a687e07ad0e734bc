package notify

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is where a notifier of a test sends to.
type recorder struct {
	mu    sync.Mutex
	began time.Time
	at    []time.Duration // when each sending began
	sent  int
	fail  func() error // nil: nothing fails
	hang  bool         // until the context ends
	gone  bool
}

func newRecorder() (*recorder, *notifier) {
	r := &recorder{began: time.Now()}
	n := newNotifier(nil, 1)
	n.send = func(ctx context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at = append(r.at, time.Since(r.began))
		if r.hang {
			r.mu.Unlock()
			<-ctx.Done()
			r.mu.Lock()
			return ctx.Err()
		}
		if r.fail != nil {
			if err := r.fail(); err != nil {
				return err
			}
		}
		r.sent++
		return nil
	}
	n.disconnect = func() { r.gone = true }
	return r, n
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
		if r.sent != 6 || n.sent.Load() != 6 || !r.gone {
			t.Errorf("sent %d, counted %d, disconnected: %t", r.sent, n.sent.Load(), r.gone)
		}
		for i, at := range r.at {
			if want := time.Duration(i/2)*10*time.Second + time.Duration(i%2)*notifyInterval; at != want {
				t.Errorf("sending %d after %v, want %v", i, at, want)
			}
		}
	})
}

// While the database is away nobody waits, attempts become rare, and others are told in the end.
func TestNotifierWhileDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRecorder()
		away := true
		r.fail = func() error {
			if away {
				return errAway
			}
			return nil
		}
		for range 1000 {
			n.tell()
		}
		time.Sleep(time.Minute)
		if !errors.Is(n.err(), errAway) {
			t.Errorf("err is %v", n.err())
		}
		r.mu.Lock()
		if tries := len(r.at); tries < 60 || tries > 70 {
			t.Errorf("%d attempts in a minute", tries)
		}
		away = false
		r.mu.Unlock()
		time.Sleep(maxNotifyDelay)
		synctest.Wait()
		if r.sent != 1 || n.sent.Load() != 1 || n.err() != nil {
			t.Errorf("%d sendings, %d counted, %v", r.sent, n.sent.Load(), n.err())
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
		{"away", func(r *recorder, n *notifier) {
			r.fail = func() error { return errAway }
			n.tell()
			time.Sleep(time.Minute)
		}, flushTimeout, 0},
		{"back", func(r *recorder, n *notifier) {
			back := time.Now().Add(time.Minute + flushTimeout/2)
			r.fail = func() error {
				if time.Now().Before(back) {
					return errAway
				}
				return nil
			}
			n.tell()
			time.Sleep(time.Minute)
		}, flushTimeout / 2, 1},
		{"no response", func(r *recorder, n *notifier) {
			r.hang = true
			n.tell()
			time.Sleep(time.Hour)
		}, flushTimeout, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, n := newRecorder()
				test.begin(r, n)
				synctest.Wait()
				begin := time.Now()
				n.close()
				if took := time.Since(begin); took < test.takes || took > test.takes+notifyInterval {
					t.Errorf("took %v, want %v", took, test.takes)
				}
				if n.sent.Load() != uint64(test.sent) {
					t.Errorf("sent %d", r.sent)
				}
				n.close()
			})
		})
	}
}

var errAway = errors.New("away")
