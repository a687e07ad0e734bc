package batch

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"worldevents/models/internal/dberr"
)

// Limiter admits as many calls as a pool has connections. It queues in front of database/sql, whose queue has no limit of time: so "no
// connection became free" (ErrBusy) differs from "the database does not respond" (ErrTimeout).
type Limiter interface {
	// Do runs work with a connection and returns its error: ErrBusy if none became free by giveUp, ErrTimeout at the deadline, and the
	// error of ctx if that ends first.
	Do(ctx context.Context, deadline, giveUp time.Time, work func() error) error
}

// Connections are those of a pool. Copies of the value share them.
type Connections struct {
	All  int64
	free *semaphore.Weighted
}

func NewConnections(n int) Connections {
	return Connections{int64(n), semaphore.NewWeighted(int64(n))}
}

func (c Connections) Do(ctx context.Context, deadline, giveUp time.Time, work func() error) error {
	if deadline.Before(giveUp) {
		giveUp = deadline
	}
	if c.Acquire(ctx, giveUp) != nil {
		return AcquireErr(ctx, deadline)
	}
	defer c.Release()
	return work()
}

// Acquire queues for a connection until ctx ends or until a time; the zero time never comes.
func (c Connections) Acquire(ctx context.Context, until time.Time) error {
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

func (c Connections) Release() { c.free.Release(1) }

// AcquireErr is the reason why a call left the queue for a connection.
func AcquireErr(ctx context.Context, deadline time.Time) error {
	switch {
	case ctx.Err() != nil:
		return dberr.Classify(ctx.Err())
	case !time.Now().Before(deadline):
		return dberr.ErrTimeout
	}
	return dberr.ErrBusy
}
