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
	// maxWait bounds the wait for a place.
	maxWait = 10 * time.Second
)

// places shares the provider among clients. A client has maxPerClient places at most, and one sign-in of each client
// at a time stands in the one queue for them: whoever comes to a full queue waits for one turn of each other client,
// however many sign-ins those have begun. Semaphores serve in the order of arrival.
type places struct {
	free *semaphore.Weighted

	mu      sync.Mutex
	inside  int
	clients map[string]*client
}

// client is an address some of whose sign-ins have a place or wait for one.
type client struct {
	inside int                 // guarded by places.mu
	share  *semaphore.Weighted // of the places
	turn   *semaphore.Weighted // to stand in the queue
}

func newPlaces() *places {
	return &places{free: semaphore.NewWeighted(maxConcurrent), clients: make(map[string]*client)}
}

// take waits for a place. The caller must call release when done with it. It returns ErrBusy if too many wait already
// or if no place came free in time, and the error of ctx if the browser went away.
func (p *places) take(ctx context.Context, address string) (release func(), err error) {
	c, ok := p.enter(address)
	if !ok {
		return nil, ErrBusy
	}
	wait, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if c.acquire(wait, p.free) != nil {
		p.leave(address, c)
		if ctx.Err() == context.Canceled {
			return nil, ctx.Err()
		}
		return nil, ErrBusy
	}
	return func() {
		p.free.Release(1)
		c.share.Release(1)
		p.leave(address, c)
	}, nil
}

// acquire takes one of the client's share, and with it one of free.
func (c *client) acquire(ctx context.Context, free *semaphore.Weighted) error {
	if err := c.share.Acquire(ctx, 1); err != nil {
		return err
	}
	err := c.turn.Acquire(ctx, 1)
	if err == nil {
		err = free.Acquire(ctx, 1)
		c.turn.Release(1)
	}
	if err != nil {
		c.share.Release(1)
	}
	return err
}

// enter counts a sign-in of a client. It reports false if there are too many. A client may have two thirds of what is left
// of the first half of maxInside, which lets a lone client have a hundred. The second half is for clients who have less
// than minInside, so that it takes many to lock others out.
func (p *places) enter(address string) (*client, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[address]
	if c == nil {
		c = &client{share: semaphore.NewWeighted(maxPerClient), turn: semaphore.NewWeighted(1)}
	}
	if p.inside >= maxInside || c.inside >= max(minInside, (maxInside/2-p.inside)*2/3) {
		return nil, false
	}
	p.clients[address] = c
	c.inside++
	p.inside++
	return c, true
}

func (p *places) leave(address string, c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside--
	if c.inside--; c.inside == 0 {
		delete(p.clients, address)
	}
}
