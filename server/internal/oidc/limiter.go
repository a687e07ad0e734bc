package oidc

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxConcurrent is the number of places: sign-ins that make requests to the provider at once.
	maxConcurrent = 64
	// maxPerClient is the number of places that one client may have.
	maxPerClient = 16
	// maxInside bounds the sign-ins that have a place or wait for one, so that a provider which hangs does not take the
	// rest of the service along.
	maxInside = 512
	// minInside is how many of them any client may have, until all maxInside are there.
	minInside = 4
)

// limiter shares the provider among clients. A client has maxPerClient places at most, and one sign-in of each client
// at a time stands in the one queue for them: whoever comes to a full queue waits for one sign-in of each other client,
// however many sign-ins those have begun. Semaphores serve in the order of arrival.
type limiter struct {
	maxWait time.Duration // bounds the wait for a place
	free    *semaphore.Weighted

	mu      sync.Mutex
	inside  int
	clients map[string]*client
}

// client is an address some of whose sign-ins have a place or wait for one.
type client struct {
	inside int                 // guarded by limiter.mu
	share  *semaphore.Weighted // of the places
	queue  *semaphore.Weighted // to stand in the queue
}

func newLimiter(maxWait time.Duration) *limiter {
	return &limiter{maxWait: maxWait, free: semaphore.NewWeighted(maxConcurrent), clients: make(map[string]*client)}
}

// acquire waits for a place. The caller must call release when done with it. It returns ErrBusy if too many wait already
// or if no place came free in time, and the error of ctx if the browser went away.
func (l *limiter) acquire(ctx context.Context, address string) (release func(), err error) {
	c, ok := l.enter(address)
	if !ok {
		return nil, ErrBusy
	}
	wait, cancel := context.WithTimeout(ctx, l.maxWait)
	defer cancel()
	if c.acquire(wait, l.free) != nil {
		l.leave(address, c)
		if ctx.Err() == context.Canceled {
			return nil, ctx.Err()
		}
		return nil, ErrBusy
	}
	return func() {
		l.free.Release(1)
		c.share.Release(1)
		l.leave(address, c)
	}, nil
}

// acquire takes one of the client's share, and with it one of free.
func (c *client) acquire(ctx context.Context, free *semaphore.Weighted) error {
	if err := c.share.Acquire(ctx, 1); err != nil {
		return err
	}
	err := c.queue.Acquire(ctx, 1)
	if err == nil {
		err = free.Acquire(ctx, 1)
		c.queue.Release(1)
	}
	if err != nil {
		c.share.Release(1)
	}
	return err
}

// enter counts a sign-in of a client. It reports false if there are too many. A client may have two thirds of what is left
// of the first half of maxInside, which lets a lone client have a hundred. The second half is for clients who have less
// than minInside, so that it takes many to lock others out.
func (l *limiter) enter(address string) (*client, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[address]
	if c == nil {
		c = &client{share: semaphore.NewWeighted(maxPerClient), queue: semaphore.NewWeighted(1)}
	}
	if l.inside >= maxInside || c.inside >= max(minInside, (maxInside/2-l.inside)*2/3) {
		return nil, false
	}
	l.clients[address] = c
	c.inside++
	l.inside++
	return c, true
}

func (l *limiter) leave(address string, c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	if c.inside--; c.inside == 0 {
		delete(l.clients, address)
	}
}
