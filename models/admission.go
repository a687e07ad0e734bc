package models

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// limiter admits as many callers as a pool has connections. It queues in front of database/sql so that "no connection
// became free" (ErrBusy) differs from "the database does not respond" (ErrTimeout).
type limiter interface {
	// do runs work once a connection is free for it, and returns its error. It returns ErrBusy when none was within
	// maxWait, ErrTimeout at the deadline, and the error of ctx when that ends first.
	do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error
}

// connections are those of a pool, which callers use side by side.
type connections struct {
	all  int64 // how many there are
	free *semaphore.Weighted
}

func newConnections(n int) connections {
	return connections{int64(n), semaphore.NewWeighted(int64(n))}
}

// do implements limiter.
func (c connections) do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
	until := time.Now().Add(maxWait)
	if deadline.Before(until) {
		until = deadline
	}
	if c.acquire(ctx, until) != nil {
		return acquireErr(ctx, deadline)
	}
	defer c.release()
	return work()
}

// acquire waits for a connection, until ctx ends or a time has come, zero for never.
func (c connections) acquire(ctx context.Context, until time.Time) error {
	if c.free.TryAcquire(1) {
		return nil
	}
	if until.IsZero() {
		return c.free.Acquire(ctx, 1)
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return c.free.Acquire(wait, 1)
}

func (c connections) release() { c.free.Release(1) }

// acquireAll waits until nobody uses a connection. Until releaseAll nobody does.
func (c connections) acquireAll(ctx context.Context) error { return c.free.Acquire(ctx, c.all) }

func (c connections) releaseAll() { c.free.Release(c.all) }

// acquireErr reports why waiting for a connection ended.
func acquireErr(ctx context.Context, deadline time.Time) error {
	switch {
	case ctx.Err() != nil:
		return classify(ctx.Err())
	case !time.Now().Before(deadline):
		return ErrTimeout
	}
	return ErrBusy
}
