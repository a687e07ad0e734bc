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

// Rule bounds how much is held: Limit by all; Share by a key, while all hold no more than half of Limit; Few by a key, up to Limit.
// So one key alone gets much, and it takes many keys to leave nothing for another.
type Rule struct{ Limit, Share, Few int }

// Each is the rule that bounds what a key holds alone.
func Each(share int) Rule { return Rule{math.MaxInt32, share, share} }

// Eighth is the rule in which a share is an eighth of the limit, and few a sixteenth of a share, 1 at least.
func Eighth(limit int) Rule { return Rule{limit, max(1, limit/8), max(1, limit/128)} }

// allows reports whether a key that holds own of what is held may have n more.
func (r Rule) allows(held, own, n int) bool {
	switch {
	case held+n > r.Limit:
		return false
	case own+n <= r.Few:
		return true
	}
	return own+n <= r.Share && held+n <= r.Limit/2
}

// Ledger knows how much of one thing is held, by each key. Its methods may be called concurrently.
type Ledger[K comparable] struct {
	rule, queue Rule

	mu           sync.Mutex
	held, queued int
	accounts     map[K]*account[K]
	lines        list.List // of *account, the one whose turn is next first
}

// account is what a key holds, and the line of those who are queued as it.
type account[K comparable] struct {
	key     K
	held    int
	waiters []waiter      // in the order of arrival
	place   *list.Element // in lines; nil while nobody waits
}

// waiter is a call of Acquire that stands in a line. It is closed when its turn has come.
type waiter chan struct{}

// New returns a ledger in which any number of calls of Acquire may be queued.
func New[K comparable](rule Rule) *Ledger[K] { return NewQueue[K](rule, Each(math.MaxInt32)) }

// NewQueue returns a ledger. Queue bounds the calls of Acquire that are queued.
func NewQueue[K comparable](rule, queue Rule) *Ledger[K] {
	return &Ledger[K]{rule: rule, queue: queue, accounts: make(map[K]*account[K])}
}

// Held returns how much is held.
func (l *Ledger[K]) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Try reports whether key may hold n more. If so, they are to be released. It overtakes nobody in the queue:
// by the same rule they may hold no more.
func (l *Ledger[K]) Try(key K, n int) bool { return l.TryShared(key, n, n) }

// TryShared is Try for what several keys hold together. It counts in full for each of them, and once among all: others hold all but
// fresh of n already.
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

// Release gives n back that key holds, and has those begin whose turn has come.
func (l *Ledger[K]) Release(key K, n int) { l.ReleaseShared(key, n, n) }

// ReleaseShared is Release for what several keys held together, and nobody holds last of any more. That may be more than n, if it has
// grown since the key held it.
func (l *Ledger[K]) ReleaseShared(key K, n, last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(key)
	a.held -= n
	l.held -= last
	l.keep(a)
	l.serve()
}

// account returns the account of a key, for which keep is called once it has changed.
func (l *Ledger[K]) account(key K) *account[K] {
	if a := l.accounts[key]; a != nil {
		return a
	}
	return &account[K]{key: key}
}

// keep keeps an account, unless it is empty.
func (l *Ledger[K]) keep(a *account[K]) {
	if a.held == 0 && len(a.waiters) == 0 {
		delete(l.accounts, a.key)
	} else {
		l.accounts[a.key] = a
	}
}

// Acquire waits until key holds one more, to be released. Keys have their turns one after another, and those who are queued as
// the same key in the order of arrival. It returns ErrFull, and the error of ctx.
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

// stand puts w into the line of key.
func (l *Ledger[K]) stand(key K, w waiter) {
	a := l.account(key)
	if len(a.waiters) == 0 {
		a.place = l.lines.PushBack(a)
	}
	a.waiters = append(a.waiters, w)
	l.queued++
	l.keep(a)
}

// leave takes w out of its line. A line in which nobody stands has no turn any more.
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

// serve has all begin who may. A line that has had its turn is the last to have the next one. Those whose key may hold no more
// are passed by: there are few, since each such key holds Few at least.
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
