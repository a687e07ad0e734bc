package models

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	sent  [][]Hint
	fail  func() error // nil: nothing fails
	hang  bool         // until the context ends
	gone  bool
}

func newRecorder() (*recorder, *notifier) {
	r := &recorder{began: time.Now()}
	n := newNotifier(nil, 1)
	n.send = func(ctx context.Context, hints []Hint) error {
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
		slices.Sort(hints)
		r.sent = append(r.sent, hints)
		return nil
	}
	n.disconnect = func() { r.gone = true }
	return r, n
}

// The first hint after a rest is sent at once. Those that follow share one sending in an interval, each hint once.
func TestNotifierGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRecorder()
		for range 3 {
			n.add(1)
			synctest.Wait()
			for range 100 {
				n.add(2)
				n.add(3)
			}
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
		n.close()
		want := [][]Hint{{1}, {2, 3}, {1}, {2, 3}, {1}, {2, 3}}
		if !slices.EqualFunc(r.sent, want, slices.Equal) {
			t.Errorf("sent %v, want %v", r.sent, want)
		}
		for i, at := range r.at {
			if want := time.Duration(i/2)*10*time.Second + time.Duration(i%2)*notifyInterval; at != want {
				t.Errorf("sending %d after %v, want %v", i, at, want)
			}
		}
		if n.sent.Load() != 9 || n.dropped.Load() != 0 || !r.gone {
			t.Errorf("%d sent, %d dropped, disconnected: %t", n.sent.Load(), n.dropped.Load(), r.gone)
		}
	})
}

// While the database is away nobody waits, little is kept, attempts become rare, and what is kept is sent in the end.
func TestNotifierWhileDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRecorder()
		away := true
		r.fail = func() error {
			if away {
				return errDisk
			}
			return nil
		}
		for i := range 3 * maxPending {
			n.add(Hint(i % (2 * maxPending))) // some of them twice
		}
		time.Sleep(time.Minute)
		if !errors.Is(n.err(), errDisk) {
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
		if len(r.sent) != 1 || len(r.sent[0]) != maxPending || n.err() != nil {
			t.Errorf("%d sendings, %v", len(r.sent), n.err())
		}
		if sent, dropped := n.sent.Load(), n.dropped.Load(); sent != maxPending || dropped == 0 {
			t.Errorf("%d sent, %d dropped", sent, dropped)
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
		{"at once", func(_ *recorder, n *notifier) { n.add(1) }, 0, 1},
		{"between two", func(_ *recorder, n *notifier) { n.add(1); synctest.Wait(); n.add(2); synctest.Wait() }, 0, 2},
		{"long after", func(_ *recorder, n *notifier) { n.add(1); time.Sleep(time.Hour) }, 0, 1},
		{"away", func(r *recorder, n *notifier) {
			r.fail = func() error { return errDisk }
			n.add(1)
			time.Sleep(time.Minute)
		}, flushTimeout, 0},
		{"back", func(r *recorder, n *notifier) {
			back := time.Now().Add(time.Minute + flushTimeout/2)
			r.fail = func() error {
				if time.Now().Before(back) {
					return errDisk
				}
				return nil
			}
			n.add(1)
			time.Sleep(time.Minute)
		}, flushTimeout / 2, 1},
		{"silent", func(r *recorder, n *notifier) {
			r.hang = true
			n.add(1)
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
					t.Errorf("sent %v", r.sent)
				}
				n.close()
			})
		})
	}
}

// Payloads are texts that PostgreSQL takes, and hold what was put in.
func TestPayloads(t *testing.T) {
	for _, count := range []int{1, 2, 747, 748, 749, 5000, maxPending} {
		var hints, back []Hint
		for i := range count {
			hints = append(hints, Hint(i)*0x9e3779b97f4a7c15)
		}
		texts := payloads(7, hints)
		for _, text := range texts {
			instance, some, ok := parsePayload(text)
			if len(text) >= 8000 || strings.ContainsAny(text, `'\`) || instance != 7 || !ok {
				t.Errorf("%d hints: %d bytes of %d, %t", count, len(text), instance, ok)
			}
			back = append(back, some...)
		}
		if !slices.Equal(back, hints) || len(texts) > 1+count/700 {
			t.Errorf("%d hints come back as %d, in %d payloads", count, len(back), len(texts))
		}
	}
	for _, text := range []string{"", "x", "'", "AAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA==", "\x00", "ÄÄÄÄÄÄÄÄÄÄÄ"} {
		if _, _, ok := parsePayload(text); ok {
			t.Errorf("%q is a payload", text)
		}
	}
}

// Hints of different things differ, and an event is no world.
func TestHints(t *testing.T) {
	hints := []Hint{EventHint(ID{}), EventHint(ID{1}), EventHint(ID{15: 1}), WorldHint(""), WorldHint("a"), WorldHint("b"), WorldHint(string(make([]byte, 16)))}
	for i, h := range hints {
		if slices.Contains(hints[:i], h) {
			t.Errorf("hint %d: %x", i, h)
		}
	}
	if EventHint(ID{1, 2, 3}) != 0xa58d973176635f80 { // other instances may be of another version
		t.Errorf("%x", EventHint(ID{1, 2, 3}))
	}
}
