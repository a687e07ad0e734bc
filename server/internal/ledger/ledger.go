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

// Unlimited is the rule of what is bounded by something else.
var Unlimited = Each(math.MaxInt32)

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
	accounts     map[K]account[K]
	lines        list.List // of *line, the one whose turn is next first
}

// account is what there is of a key that holds something or is queued.
type account[K comparable] struct {
	held int
	line *line[K] // nil while nobody stands in one
}

// queued returns how many calls of Acquire stand in the line.
func (a account[K]) queued() int {
	if a.line == nil {
		return 0
	}
	return len(a.line.waiters)
}

// line is who is queued as a key, in the order of arrival.
type line[K comparable] struct {
	key     K
	waiters []*waiter
	place   *list.Element // in lines
}

// waiter is a call of Acquire that stands in a line until it has its turn.
type waiter struct {
	begun bool
	begin chan struct{} // closed with begun
}

// New returns a ledger. Queue bounds the calls of Acquire that are queued.
func New[K comparable](rule, queue Rule) *Ledger[K] {
	return &Ledger[K]{rule: rule, queue: queue, accounts: make(map[K]account[K])}
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
	a := l.accounts[key]
	if !l.rule.allows(l.held+fresh-n, a.held, n) {
		return false
	}
	a.held += n
	l.held += fresh
	l.accounts[key] = a
	return true
}

// Release gives n back that key holds, and has those begin whose turn has come.
func (l *Ledger[K]) Release(key K, n int) { l.ReleaseShared(key, n, n) }

// ReleaseShared is Release for what several keys held together, and nobody holds last of any more. That may be more than n, if it has
// grown since the key held it.
func (l *Ledger[K]) ReleaseShared(key K, n, last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	a.held -= n
	l.held -= last
	l.put(key, a)
	l.serve()
}

// put replaces what there is of a key.
func (l *Ledger[K]) put(key K, a account[K]) {
	if a == (account[K]{}) {
		delete(l.accounts, key)
	} else {
		l.accounts[key] = a
	}
}

// Acquire waits until key holds one more, to be released. Keys have their turns one after another, and those who are queued as
// the same key in the order of arrival. It returns ErrFull, and the error of ctx.
func (l *Ledger[K]) Acquire(ctx context.Context, key K) error {
	if l.Try(key, 1) {
		return nil
	}
	w := &waiter{begin: make(chan struct{})}
	l.mu.Lock()
	a := l.accounts[key]
	if !l.rule.allows(l.held, a.held, 1) && !l.queue.allows(l.queued, a.queued(), 1) {
		l.mu.Unlock()
		return ErrFull
	}
	l.stand(key, w)
	l.serve()
	l.mu.Unlock()

	var err error
	select {
	case <-w.begin:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.begun { // perhaps at the last moment
		return nil
	}
	l.leave(key, w)
	return err
}

// stand puts w into the line of key.
func (l *Ledger[K]) stand(key K, w *waiter) {
	a := l.accounts[key]
	if a.line == nil {
		a.line = &line[K]{key: key}
		a.line.place = l.lines.PushBack(a.line)
		l.put(key, a)
	}
	a.line.waiters = append(a.line.waiters, w)
	l.queued++
}

// leave takes w out of the line of key. A line in which nobody stands has no turn any more.
func (l *Ledger[K]) leave(key K, w *waiter) {
	a := l.accounts[key]
	line := a.line
	if line.waiters[0] == w {
		line.waiters[0] = nil // or the array would keep it
		line.waiters = line.waiters[1:]
	} else {
		line.waiters = slices.DeleteFunc(line.waiters, func(other *waiter) bool { return other == w })
	}
	l.queued--
	if len(line.waiters) == 0 {
		l.lines.Remove(line.place)
		a.line = nil
		l.put(key, a)
	}
}

// serve has all begin who may. A line that has had its turn is the last to have the next one. Those whose key may hold no more
// are passed by: there are few, since each such key holds Few at least.
func (l *Ledger[K]) serve() {
	for place := l.lines.Front(); place != nil && l.held < l.rule.Limit; {
		line := place.Value.(*line[K])
		if a := l.accounts[line.key]; !l.rule.allows(l.held, a.held, 1) {
			place = place.Next()
			continue
		}
		l.lines.MoveToBack(place)
		w := line.waiters[0]
		l.leave(line.key, w)
		a := l.accounts[line.key]
		a.held++
		l.held++
		l.put(line.key, a)
		w.begun = true
		close(w.begin)
		place = l.lines.Front()
	}
}
