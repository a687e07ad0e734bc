package batch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Turns keeps calls that wait for a locked row from taking connections that others could use. Calls that need
// the row of the same key come one after the other, and all calls together have few places.
type Turns[K comparable] struct {
	places Connections

	mu   sync.Mutex
	rows map[K]*row
}

// row is a row for as long as calls need it, and none has found it free.
type row struct {
	turn  chan struct{} // has room for the call whose turn it is
	free  chan struct{} // closed once a call has found the row free
	calls int           // guarded by the mutex of Turns
}

// ErrFree is returned by Take to a call that need not take its turn: another one has found the row free.
var ErrFree = errors.New("the row is not locked any more")

// NewTurns returns turns of a number of places.
func NewTurns[K comparable](places int) *Turns[K] {
	return &Turns[K]{places: NewConnections(places), rows: make(map[K]*row)}
}

// Take waits for the turn of a key and for a place, until a time or the end of ctx, and returns the error of
// ctx then. The caller calls leave when its work is done, and says whether it found the row free: then those who
// have waited meanwhile get ErrFree. Who does not know says false.
func (t *Turns[K]) Take(ctx context.Context, key K, until time.Time) (leave func(free bool), err error) {
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	r := t.enter(key)
	select {
	case <-wait.Done():
		err = wait.Err()
	case <-r.free:
		err = ErrFree
	case r.turn <- struct{}{}:
		if err = t.places.Acquire(wait, time.Time{}); err == nil {
			return func(free bool) {
				t.places.Release()
				t.leave(key, r, free)
				<-r.turn
			}, nil
		}
		<-r.turn
	}
	t.leave(key, r, false)
	return nil, err
}

func (t *Turns[K]) enter(key K) *row {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[key]
	if r == nil {
		r = &row{turn: make(chan struct{}, 1), free: make(chan struct{})}
		t.rows[key] = r
	}
	r.calls++
	return r
}

// leave forgets the row if a call has found it free, or if no call needs it any more.
func (t *Turns[K]) leave(key K, r *row, free bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.calls--
	if t.rows[key] == r && (free || r.calls == 0) {
		delete(t.rows, key)
		close(r.free)
	}
}

// First returns the first key for whose row calls take turns. It asks for the keys only if there is any such row.
func (t *Turns[K]) First(keys func() []K) (key K, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) > 0 {
		for _, key := range keys() {
			if t.rows[key] != nil {
				return key, true
			}
		}
	}
	return key, false
}

// Len returns for how many rows calls take turns, and how many calls do.
func (t *Turns[K]) Len() (rows, calls int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		calls += r.calls
	}
	return len(t.rows), calls
}
