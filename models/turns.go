package models

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// turns shares the connections of a pool. Waiting for one is done here, and not in database/sql, so that "no
// connection came free" can be told from "the database does not answer".
type turns interface {
	// take runs work when a connection is free for it and returns its error. It returns ErrBusy when none was within
	// patience, ErrTimeout at the deadline, and the error of ctx when that ends first.
	take(ctx context.Context, deadline time.Time, patience time.Duration, work func() error) error
	close()
}

// places are as many as there are connections.
type places struct{ *semaphore.Weighted }

func (p places) take(ctx context.Context, deadline time.Time, patience time.Duration, work func() error) error {
	if !p.TryAcquire(1) {
		patient, cancel := context.WithTimeout(ctx, min(patience, time.Until(deadline)))
		defer cancel()
		if p.Acquire(patient, 1) != nil {
			return impatience(ctx, deadline)
		}
	}
	defer p.Release(1)
	return work()
}

func (places) close() {}

// impatience is why waiting has ended.
func impatience(ctx context.Context, deadline time.Time) error {
	switch {
	case ctx.Err() != nil:
		return classify(ctx.Err())
	case !time.Now().Before(deadline):
		return ErrTimeout
	}
	return ErrBusy
}

// writer does the work of all in one goroutine, in the order of asking. It goes on with the next piece at once; handed
// from one caller to the other, a single connection would rest until the next of them is scheduled, a third of the time.
type writer struct {
	jobs chan *job
	quit chan struct{}
	stop func() // closes quit, once
}

type job struct {
	work  func() error
	done  chan struct{}
	err   error
	fault any // what work panicked with, and where
}

func newWriter() writer {
	w := writer{jobs: make(chan *job), quit: make(chan struct{})}
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
		if fault := recover(); fault != nil {
			j.fault = fmt.Sprintf("%v\n%s", fault, debug.Stack())
		}
	}()
	j.err = j.work()
}

func (w writer) take(ctx context.Context, deadline time.Time, patience time.Duration, work func() error) error {
	j := &job{work: work, done: make(chan struct{})}
	select {
	case w.jobs <- j:
	default:
		patient, cancel := context.WithTimeout(ctx, min(patience, time.Until(deadline)))
		defer cancel()
		select {
		case w.jobs <- j:
		case <-patient.Done():
			return impatience(ctx, deadline)
		case <-w.quit:
			return ErrUnavailable
		}
	}
	<-j.done
	if j.fault != nil {
		panic(j.fault) // where the caller can deal with it
	}
	return j.err
}

func (w writer) close() { w.stop() }
