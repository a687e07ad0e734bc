package batch

import (
	"context"
	"sync"
	"time"
)

// Turns keeps calls that wait for a locked row from taking connections that others could use. Calls with the
// same key, which stands for the row, come one after the other, and all calls together have few places.
type Turns struct {
	places Connections

	mu   sync.Mutex
	keys map[string]*turn
}

// turn is that of one key, for as long as somebody needs it.
type turn struct {
	free  chan struct{} // has room for the call whose turn it is
	users int           // guarded by the mutex of Turns
}

func NewTurns(places int) *Turns {
	return &Turns{places: NewConnections(places), keys: make(map[string]*turn)}
}

// Take waits for the turn of a key and for a place, until a time or the end of ctx, and returns the error of
// ctx then. The caller calls leave when its work is done.
func (t *Turns) Take(ctx context.Context, key string, until time.Time) (leave func(), err error) {
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	mine := t.enter(key)
	select {
	case mine.free <- struct{}{}:
	case <-wait.Done():
		t.leave(key, mine)
		return nil, wait.Err()
	}
	pass := func() {
		<-mine.free
		t.leave(key, mine)
	}
	if err := t.places.Acquire(wait, time.Time{}); err != nil {
		pass()
		return nil, err
	}
	return func() {
		t.places.Release()
		pass()
	}, nil
}

func (t *Turns) enter(key string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.keys[key]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		t.keys[key] = mine
	}
	mine.users++
	return mine
}

func (t *Turns) leave(key string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.keys, key)
	}
}
