package eventlist

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"worldevents/models"
)

// coalescer lets requests share readings. Unlike singleflight's, a reading that is shared has begun after all who
// share it asked for it.
type coalescer struct {
	// read reads r for all its callers. Its error is that of r.
	read func(ctx context.Context, r *sharedRead) error
	// timeout bounds a reading.
	timeout time.Duration

	mu sync.Mutex
	// running has an entry for each list that is being read: the reading to start next, nil while nobody waits.
	running map[readKey]*sharedRead
}

// sharedRead is one reading of a list, for the callers who asked before it began.
type sharedRead struct {
	key     readKey
	options models.ListOptions
	callers []models.Caller
	done    chan struct{}

	// Once done:
	err       error
	usage     models.Usage
	signedOut map[models.Caller]bool // callers who are not active
	held      *heldList              // nil if that is all of them
	how       way
	room      room
}

// do returns a reading that began after the call. It returns the error of the reading, models.ErrSignedOut when this caller is
// not active, and models.ErrBusy when the reading took too long. It does not ask whether the client is still there: this takes
// little time, and a client may close its side of the connection after the request.
func (c *coalescer) do(ctx context.Context, key readKey, options models.ListOptions, caller models.Caller) (*sharedRead, error) {
	c.mu.Lock()
	r, shared := c.running[key]
	if r == nil {
		r = &sharedRead{key: key, options: options, done: make(chan struct{})}
	}
	r.callers = append(r.callers, caller)
	c.running[key] = nil
	if shared {
		c.running[key] = r
	}
	c.mu.Unlock()

	if shared {
		select {
		case <-r.done:
		case <-time.After(2 * c.timeout): // the reading before this one has as long
			go func() { <-r.done; r.room.release() }()
			return nil, fmt.Errorf("list events of world %q: %w", key.world, models.ErrBusy)
		}
	} else {
		c.run(r)
	}
	models.UsageOf(ctx).Add(r.usage) // which is the same for all who share it
	err := r.err
	if err == nil && r.signedOut[caller] {
		err = models.ErrSignedOut
	}
	if err != nil {
		r.room.release()
		return nil, fmt.Errorf("list events of world %q: %w", key.world, err)
	}
	return r, nil
}

// run reads r, then starts the next reading of the same list. Its context does not end with a request: others share the reading.
func (c *coalescer) run(r *sharedRead) {
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		close(r.done)
		c.mu.Lock()
		defer c.mu.Unlock()
		if next := c.running[r.key]; next != nil {
			c.running[r.key] = nil
			go c.run(next)
		} else {
			delete(c.running, r.key)
		}
	}()
	ctx := context.WithValue(context.Background(), models.Deadline{}, time.Now().Add(c.timeout))
	usage := new(models.Usage) // which may live as long as the context
	r.err = c.read(context.WithValue(ctx, models.UsageKey{}, usage), r)
	r.usage = *usage
}
