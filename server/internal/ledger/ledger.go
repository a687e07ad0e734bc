package ledger

import (
	"container/list"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
)

// ErrFull is returned by Acquire when too many are queued already.
var ErrFull = errors.New("too many wait for their turn")

// Rule bounds the total by Limit, a key by Share while the total is at most half of Limit, and a key by Few up to Limit.
type Rule struct{ Limit, Share, Few int }

// Each bounds each key, and not the total.
func Each(share int) Rule { return Rule{math.MaxInt32, share, share} }

// Eighth has a share of an eighth of the limit, and few of a 128th, at least 1.
func Eighth(limit int) Rule { return Rule{limit, max(1, limit/8), max(1, limit/128)} }

// allows reports whether a key with own of the total held may have n more.
func (r Rule) allows(held, own, n int) bool {
	switch {
	case held+n > r.Limit:
		return false
	case own+n <= r.Few:
		return true
	}
	return own+n <= r.Share && held+n <= r.Limit/2
}

// Ledger counts a resource by key. Its methods may be called concurrently.
type Ledger[K comparable] struct {
	rule, queue Rule

	mu           sync.Mutex
	held, queued int
	accounts     map[K]*account[K]
	lines        list.List // of *account, the next turn first
}

type account[K comparable] struct {
	key     K
	held    int
	waiters []waiter      // in the order of arrival
	place   *list.Element // in lines; nil while nobody waits
}

// waiter is a call of Acquire. It is closed at its turn.
type waiter chan struct{}

// New returns a ledger with an unbounded queue.
func New[K comparable](rule Rule) *Ledger[K] { return NewQueue[K](rule, Each(math.MaxInt32)) }

func NewQueue[K comparable](rule, queue Rule) *Ledger[K] {
	return &Ledger[K]{rule: rule, queue: queue, accounts: make(map[K]*account[K])}
}

func (l *Ledger[K]) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Try acquires n more, if key may have them, and reports that. It overtakes nobody in the queue, who may have no more by the same rule.
func (l *Ledger[K]) Try(key K, n int) bool { return l.TryShared(key, n, n) }

// TryShared is Try for what several keys share: n counts for the key, and fresh, the part that nobody has yet, in total.
func (l *Ledger[K]) TryShared(key K, n, fresh int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(key)
	if !l.rule.allows(l.held+fresh-n, a.held, n) {
		return false
	}
	a.held += n
	l.held += fresh
	l.keep(a)
	return true
}

// Release releases n of key, and serves the queue.
func (l *Ledger[K]) Release(key K, n int) { l.ReleaseShared(key, n, n) }

// ReleaseShared is Release for what several keys shared. last is the part that nobody has any more, which may have grown beyond n.
func (l *Ledger[K]) ReleaseShared(key K, n, last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(key)
	a.held -= n
	l.held -= last
	l.keep(a)
	l.serve()
}

// account returns the account of a key; call keep after each change.
func (l *Ledger[K]) account(key K) *account[K] {
	if a := l.accounts[key]; a != nil {
		return a
	}
	return &account[K]{key: key}
}

// keep drops an empty account.
func (l *Ledger[K]) keep(a *account[K]) {
	if a.held == 0 && len(a.waiters) == 0 {
		delete(l.accounts, a.key)
	} else {
		l.accounts[a.key] = a
	}
}

// Acquire waits for one more. Keys take turns, and callers with the same key are served in order. It returns ErrFull, and the error of ctx.
func (l *Ledger[K]) Acquire(ctx context.Context, key K) error {
	w := make(waiter)
	l.mu.Lock()
	if a := l.account(key); !l.rule.allows(l.held, a.held, 1) && !l.queue.allows(l.queued, len(a.waiters), 1) {
		l.mu.Unlock()
		return ErrFull
	}
	l.stand(key, w)
	l.serve()
	l.mu.Unlock()

	select {
	case <-w:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w: // at the last moment
		return nil
	default:
	}
	l.leave(l.account(key), w)
	return ctx.Err()
}

func (l *Ledger[K]) stand(key K, w waiter) {
	a := l.account(key)
	if len(a.waiters) == 0 {
		a.place = l.lines.PushBack(a)
	}
	a.waiters = append(a.waiters, w)
	l.queued++
	l.keep(a)
}

// leave removes w from its line, and an empty line from the turns.
func (l *Ledger[K]) leave(a *account[K], w waiter) {
	if a.waiters[0] == w {
		a.waiters[0] = nil // or the array would keep it
		a.waiters = a.waiters[1:]
	} else {
		a.waiters = slices.DeleteFunc(a.waiters, func(other waiter) bool { return other == w })
	}
	l.queued--
	if len(a.waiters) == 0 {
		l.lines.Remove(a.place)
		a.waiters, a.place = nil, nil
	}
	l.keep(a)
}

// serve serves those who may acquire. After its turn a line comes last. It skips keys at their bound: there are few, since each has Few.
func (l *Ledger[K]) serve() {
	for place := l.lines.Front(); place != nil && l.held < l.rule.Limit; {
		a := place.Value.(*account[K])
		if !l.rule.allows(l.held, a.held, 1) {
			place = place.Next()
			continue
		}
		l.lines.MoveToBack(place)
		w := a.waiters[0]
		a.held++
		l.held++
		l.leave(a, w)
		close(w)
		place = l.lines.Front()
	}
}
