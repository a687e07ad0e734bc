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

// semaphoreLimiter lets callers use connections side by side.
type semaphoreLimiter struct{ *semaphore.Weighted }

func (l semaphoreLimiter) do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
	until := time.Now().Add(maxWait)
	if deadline.Before(until) {
		until = deadline
	}
	if l.acquire(ctx, until) != nil {
		return acquireErr(ctx, deadline)
	}
	defer l.Release(1)
	return work()
}

// acquire waits for a connection, until ctx ends or a time has come, zero for never.
func (l semaphoreLimiter) acquire(ctx context.Context, until time.Time) error {
	if l.TryAcquire(1) {
		return nil
	}
	if until.IsZero() {
		return l.Acquire(ctx, 1)
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return l.Acquire(wait, 1)
}

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
