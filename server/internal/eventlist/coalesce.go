package eventlist

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"worldevents/models"
)

// coalescer shares readings. Unlike with singleflight, all callers asked before the shared reading began.
type coalescer struct {
	// read reads r for all callers. Its error becomes r.err.
	read    func(ctx context.Context, r *sharedRead) error
	timeout time.Duration

	mu sync.Mutex
	// running has an entry for each list that is being read: the reading that callers may still share, or nil if nobody waits for the next one.
	running map[readKey]*sharedRead
}

// sharedRead is a reading of a list.
type sharedRead struct {
	key     readKey
	options models.ListOptions
	callers []models.Caller
	done    chan struct{}

	// Once done:
	err       error
	usage     models.Usage
	signedOut map[models.Caller]bool // inactive callers
	held      *heldList              // nil if all are inactive
	how       way
	room      room
}

// do returns a reading that began after the call. It returns its error, and models.ErrSignedOut for an inactive caller. It ignores that the
// client is gone: reading is short, and a client may close its side after the request.
func (c *coalescer) do(ctx context.Context, key readKey, options models.ListOptions, caller models.Caller) (*sharedRead, error) {
	c.mu.Lock()
	r, shared := c.running[key]
	if r == nil {
		r = &sharedRead{key: key, options: options, done: make(chan struct{})}
		c.running[key] = r
	}
	r.callers = append(r.callers, caller)
	c.mu.Unlock()

	if shared {
		<-r.done // after two timeouts at most: the reading before this one has its own
	} else {
		runtime.Gosched() // requests that are ready share the reading
		c.run(r)
	}
	models.UsageOf(ctx).Add(r.usage) // the same for all callers
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

// run reads r, which from now on takes no caller, then starts the next reading of the list. Its context outlives each request.
func (c *coalescer) run(r *sharedRead) {
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		close(r.done)
		c.mu.Lock()
		defer c.mu.Unlock()
		if next := c.running[r.key]; next != nil {
			go c.run(next)
		} else {
			delete(c.running, r.key)
		}
	}()
	c.mu.Lock()
	c.running[r.key] = nil
	c.mu.Unlock()
	ctx := context.WithValue(context.Background(), models.Deadline{}, time.Now().Add(c.timeout))
	usage := new(models.Usage) // not in r, which the context would keep
	r.err = c.read(context.WithValue(ctx, models.UsageKey{}, usage), r)
	r.usage = *usage
}
