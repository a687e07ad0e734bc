package batch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"worldevents/models/internal/dberr"
)

// rowsModel are rows of which some are locked for a while, and when a call that names one was refused last.
type rowsModel struct {
	mu      sync.Mutex
	until   map[string]time.Time
	refused map[string]time.Time
}

func (m *rowsModel) freeAt(ids []string) (at time.Time) {
	for _, id := range ids {
		if m.until[id].After(at) {
			at = m.until[id]
		}
	}
	return at
}

// wait waits for the locks of rows, as a transaction does.
func (m *rowsModel) wait(l *Lane, ids []string, patience time.Duration) error {
	giveUp := time.Now().Add(patience)
	m.mu.Lock()
	free := m.freeAt(ids)
	m.mu.Unlock()
	if !free.After(giveUp) {
		time.Sleep(time.Until(free))
		return nil
	}
	time.Sleep(patience)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.refused[id] = time.Now()
	}
	l.Refused(ids)
	return dberr.ErrLocked
}

// Whatever is locked when: a call is refused at once no more than once, and not if it names an id of one that was refused within the last second.
// One whose ids nobody was refused for never needs a place. No more than the places wait alone.
func TestLaneHistories(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { testLaneHistory(t, seed) })
	}
}

func testLaneHistory(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	names := []string{"a", "b", "c", "d", "e", "f"}
	m := &rowsModel{until: make(map[string]time.Time), refused: make(map[string]time.Time)}
	conns := 4 + random.IntN(12)
	var met, alone, refusals atomic.Int64
	l := NewLane(NewConnections(conns), func() { met.Add(1) })
	var all sync.WaitGroup
	for range 1 + random.IntN(4) {
		from, lasts, name := time.Duration(random.IntN(3000))*time.Millisecond, time.Duration(random.IntN(3000))*time.Millisecond, names[random.IntN(len(names))]
		all.Go(func() {
			time.Sleep(from)
			m.mu.Lock()
			m.until[name] = time.Now().Add(lasts)
			m.mu.Unlock()
		})
	}
	for range 1 + random.IntN(200) {
		begin := time.Duration(random.IntN(6000))*time.Millisecond + time.Microsecond*time.Duration(1+random.IntN(900))
		ids := []string{names[random.IntN(len(names))], names[random.IntN(len(names))]}
		all.Go(func() {
			time.Sleep(begin)
			m.mu.Lock()
			known := false
			wasLocked := m.freeAt(ids).After(time.Now())
			for _, id := range ids {
				known = known || time.Since(m.refused[id]) < afterRefusal
			}
			m.mu.Unlock()
			giveUp := time.Now().Add(time.Second)
			tried, waited := false, false
			err := l.Run(ids, giveUp, func() error {
				tried = true
				err := m.wait(l, ids, 200*time.Millisecond)
				if err != nil {
					refusals.Add(1)
				}
				return err
			}, func(in Limiter, patience time.Duration) error {
				return in.Do(context.Background(), giveUp.Add(time.Second), giveUp, func() error {
					if in != Limiter(l) {
						return m.wait(l, ids, patience)
					}
					waited = true
					if n := alone.Add(1); n > int64(max(1, conns/4)) {
						t.Errorf("seed %d: %d of %d connections wait for locks", seed, n, conns)
					}
					defer alone.Add(-1)
					return m.wait(l, ids, patience)
				})
			})
			if waited && !wasLocked {
				t.Errorf("seed %d: in a place, and nothing was locked", seed)
			}
			if tried == known {
				t.Errorf("seed %d: tried at once %t, while an id is known to be locked: %t", seed, tried, known)
			}
			if err != nil && !errors.Is(err, dberr.ErrLocked) && !errors.Is(err, dberr.ErrBusy) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if met.Load() != refusals.Load() {
		t.Errorf("seed %d: %d met a locked row, counted %d", seed, refusals.Load(), met.Load())
	}
}

// One whose own row is free after a moment, longer than it waits without a place, is not behind ten that wait in vain for another row of
// the same event.
func TestLaneTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &rowsModel{until: make(map[string]time.Time), refused: make(map[string]time.Time)}
		l := NewLane(NewConnections(8), func() {})
		m.until["locked"] = time.Now().Add(time.Hour)
		begun := time.Now()
		run := func(ids ...string) error {
			giveUp := time.Now().Add(20 * time.Second)
			alone := func(in Limiter, patience time.Duration) error {
				return in.Do(context.Background(), giveUp, giveUp, func() error { return m.wait(l, ids, patience) })
			}
			return l.Run(ids, giveUp, func() error { return m.wait(l, ids, 200*time.Millisecond) }, alone)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := run("event", "locked"); err == nil {
					t.Error("got a lock that somebody has")
				}
			})
		}
		time.Sleep(time.Second)
		m.mu.Lock()
		m.until["late"] = time.Now().Add(2 * brief)
		m.mu.Unlock()
		if err, took := run("event", "late"), time.Since(begun)-time.Second; err != nil || took > time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		all.Wait()
		if took := time.Since(begun); took > 21*time.Second {
			t.Errorf("waited for %v in vain", took)
		}
	})
}
