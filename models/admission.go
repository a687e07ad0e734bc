package models

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// limiter admits as many callers as a pool has connections. It queues in front of database/sql so that "no connection
// became free" (ErrBusy) differs from "the database does not respond" (ErrTimeout).
type limiter interface {
	// do runs work once a connection is free for it, and returns its error. It returns ErrBusy when none was within
	// maxWait, ErrTimeout at the deadline, and the error of ctx when that ends first.
	do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error
	close()
}

// semaphoreLimiter lets callers use connections side by side.
type semaphoreLimiter struct{ *semaphore.Weighted }

func (l semaphoreLimiter) do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
	if !l.TryAcquire(1) {
		wait, cancel := context.WithTimeout(ctx, min(maxWait, time.Until(deadline)))
		defer cancel()
		if l.Acquire(wait, 1) != nil {
			return acquireErr(ctx, deadline)
		}
	}
	defer l.Release(1)
	return work()
}

func (semaphoreLimiter) close() {}

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

// serialWriter runs every write to SQLite on one goroutine, first come first served. Handing one connection from
// caller to caller left it idle a third of the time, waiting for the next goroutine to be scheduled.
type serialWriter struct {
	jobs chan *job
	quit chan struct{}
	stop func() // closes quit, once
}

type job struct {
	work     func() error
	done     chan struct{}
	err      error
	panicked any // what work panicked with, and where
}

func newSerialWriter() serialWriter {
	w := serialWriter{jobs: make(chan *job), quit: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.quit) })
	go func() {
		for {
			select {
			case j := <-w.jobs:
				j.run()
			case <-w.quit:
				return
			}
		}
	}()
	return w
}

func (j *job) run() {
	defer close(j.done)
	defer func() {
		if r := recover(); r != nil {
			j.panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
		}
	}()
	j.err = j.work()
}

func (w serialWriter) do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
	j := &job{work: work, done: make(chan struct{})}
	select {
	case w.jobs <- j:
	default:
		wait, cancel := context.WithTimeout(ctx, min(maxWait, time.Until(deadline)))
		defer cancel()
		select {
		case w.jobs <- j:
		case <-wait.Done():
			return acquireErr(ctx, deadline)
		case <-w.quit:
			return ErrUnavailable
		}
	}
	<-j.done
	if j.panicked != nil {
		panic(j.panicked) // on the goroutine that can respond to it
	}
	return j.err
}

func (w serialWriter) close() { w.stop() }
