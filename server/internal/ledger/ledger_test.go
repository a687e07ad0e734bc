package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestRule(t *testing.T) {
	for _, c := range []struct {
		rule         Rule
		held, own, n int
		want         bool
	}{
		{Eighth(800), 0, 0, 100, true},
		{Eighth(800), 0, 0, 101, false},
		{Eighth(800), 300, 0, 100, true},
		{Eighth(800), 301, 0, 100, false}, // more than half
		{Eighth(800), 794, 0, 6, true},    // few
		{Eighth(800), 795, 0, 6, false},
		{Eighth(800), 500, 0, 7, false},
		{Eighth(800), 800, 0, 1, false},
		{Eighth(1), 0, 0, 1, true},
		{Eighth(1), 1, 1, 1, false},
		{Eighth(2), 1, 0, 1, true},
		{Eighth(2), 1, 1, 1, false},
		{Rule{4, 2, 1}, 0, 0, 2, true},
		{Rule{4, 2, 1}, 1, 1, 1, true},
		{Rule{4, 2, 1}, 2, 1, 1, false},
	} {
		if got := c.rule.allows(c.held, c.own, c.n); got != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// How many keys it takes to leave nothing for another.
func TestKeysThatFillALedger(t *testing.T) {
	l := New[int](Eighth(8192))
	for key := range 67 {
		for l.Try(key, 1) {
		}
	}
	if !l.Try(67, 1) {
		t.Error("67 keys leave nothing for another")
	}
}

// model is what a ledger should be, written for simplicity alone: who waits is one list, and whose key had its turn longest ago
// comes first.
type model struct {
	rule, queue Rule
	held        map[int]int
	again       int // how much of that counts once among all, and for more keys than one
	waiters     []waiting
	order       []int // keys that wait, the next first
}

type waiting struct{ id, key int }

func (m *model) all() (n int) {
	for _, own := range m.held {
		n += own
	}
	return n - m.again
}

// next takes whose turn it is, if anybody may begin.
func (m *model) next() (id, key int, ok bool) {
	m.order = slices.DeleteFunc(m.order, func(key int) bool { return m.first(key) < 0 })
	for i, key := range m.order {
		if m.rule.allows(m.all(), m.held[key], 1) {
			w := m.first(key)
			id = m.waiters[w].id
			m.waiters = slices.Delete(m.waiters, w, w+1)
			m.order = append(slices.Delete(m.order, i, i+1), key)
			m.held[key]++
			return id, key, true
		}
	}
	return 0, 0, false
}

func (m *model) first(key int) int {
	return slices.IndexFunc(m.waiters, func(w waiting) bool { return w.key == key })
}

func (m *model) wait(w waiting) {
	m.waiters = append(m.waiters, w)
	if !slices.Contains(m.order, w.key) {
		m.order = append(m.order, w.key)
	}
}

func (m *model) waits(key int) (all, own int) {
	for _, w := range m.waiters {
		if w.key == key {
			own++
		}
	}
	return len(m.waiters), own
}

// Random histories of a ledger are those of the model: who begins, as which key, in which order, and who is refused.
func TestLedgerModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failure any
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer func() { failure = recover() }() // rapid goes on outside
			history(ctx, rt)
		})
		if failure != nil {
			panic(failure)
		}
	})
}

type begun struct{ id, key int }

func history(test context.Context, rt *rapid.T) {
	rule := Rule{rapid.IntRange(1, 12).Draw(rt, "limit"), rapid.IntRange(1, 6).Draw(rt, "share"), rapid.IntRange(1, 3).Draw(rt, "few")}
	queue := Rule{rapid.IntRange(1, 16).Draw(rt, "queue"), rapid.IntRange(1, 8).Draw(rt, "queue share"), rapid.IntRange(1, 3).Draw(rt, "queue few")}
	m := &model{rule: rule, queue: queue, held: make(map[int]int)}
	l := NewQueue[int](rule, queue)
	var mu sync.Mutex // of got and failed
	var got, want []begun
	cancels := make(map[int]func())
	var failed []int // calls of Acquire
	key := rapid.IntRange(0, 4)
	settle := func() {
		for {
			id, key, ok := m.next()
			if !ok {
				break
			}
			want = append(want, begun{id, key})
		}
		synctest.Wait()
		slices.SortFunc(want, func(a, b begun) int { return a.id - b.id })
		slices.SortFunc(got, func(a, b begun) int { return a.id - b.id })
		if !slices.Equal(got, want) || l.Held() != m.all() {
			rt.Fatalf("began %v, want %v; held %d, want %d", got, want, l.Held(), m.all())
		}
	}
	for id := range rapid.IntRange(1, 200).Draw(rt, "steps") {
		switch rapid.IntRange(0, 4).Draw(rt, "step") {
		case 0:
			k, n := key.Draw(rt, "key"), rapid.IntRange(1, 4).Draw(rt, "n")
			again := rapid.IntRange(0, min(n, m.all()-m.held[k])).Draw(rt, "again") // what others hold
			may := rule.allows(m.all()-again, m.held[k], n)
			if ok := l.TryShared(k, n, n-again); ok != may {
				rt.Fatalf("TryShared(%d, %d, %d) is %t", k, n, n-again, ok)
			}
			if may {
				m.held[k] += n
				m.again += again
			}
		case 1:
			k := key.Draw(rt, "key")
			if m.held[k] > 0 {
				n := rapid.IntRange(1, m.held[k]).Draw(rt, "n")
				m.held[k] -= n
				most := 0 // what another key holds has not been released last
				for _, held := range m.held {
					most = max(most, held)
				}
				before := m.all() + n
				again := rapid.IntRange(max(0, n-before+most), min(n, m.again)).Draw(rt, "again")
				m.again -= again
				l.ReleaseShared(k, n, n-again)
			}
		case 2, 3:
			k := key.Draw(rt, "key")
			if all, own := m.waits(k); !rule.allows(m.all(), m.held[k], 1) && !queue.allows(all, own, 1) {
				if err := l.Acquire(test, k); err != ErrFull {
					rt.Fatalf("Acquire(%d) with %d of %d waiting: %v", k, own, all, err)
				}
				break
			}
			m.wait(waiting{id, k})
			ctx, cancel := context.WithCancel(test)
			cancels[id] = cancel
			go func() {
				err := l.Acquire(ctx, k)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					got = append(got, begun{id, k})
				} else if errors.Is(err, context.Canceled) {
					failed = append(failed, id)
				}
			}()
			synctest.Wait() // so that they arrive in this order
		case 4:
			if len(m.waiters) > 0 {
				i := rapid.IntRange(0, len(m.waiters)-1).Draw(rt, "who")
				gone := m.waiters[i].id
				m.waiters = slices.Delete(m.waiters, i, i+1)
				cancels[gone]()
				synctest.Wait()
				if !slices.Contains(failed, gone) {
					rt.Fatalf("%d still waits", gone)
				}
			}
		}
		settle()
	}
	for m.all() > 0 || len(m.waiters) > 0 {
		for k := range 5 {
			n := m.held[k]
			again := min(n, m.again)
			m.held[k] = 0
			m.again -= again
			l.ReleaseShared(k, n, n-again)
			settle()
		}
	}
	if l.Held() != 0 || len(l.accounts) != 0 || l.lines.Len() != 0 || l.queued != 0 {
		rt.Fatalf("left: %d held, %d accounts, %d lines, %d waiting", l.Held(), len(l.accounts), l.lines.Len(), l.queued)
	}
}
