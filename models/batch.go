package models

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// batchWriter is the limiter of SQLite's one writer. One goroutine does every write on one connection, first come first
// served. It puts all writes that wait into one transaction, so that they share the sync of its commit, and returns from
// none of them before that: each acknowledged write is covered by a sync that began after it. Each write has a savepoint,
// and one that fails takes back only what it did itself. If the commit fails, all of the batch have failed, also those
// that only read what another one wrote.
type batchWriter struct {
	jobs    chan *job
	pauses  chan func() // what is to run between two batches
	quit    chan struct{}
	stopped chan struct{}
	stop    func() // closes quit, once
}

// batchTransaction is what a batch runs in. A method that fails leaves no transaction behind, except keep and undo.
type batchTransaction interface {
	begin() error
	// mark begins what keep or undo ends.
	mark() error
	keep() error
	undo() error
	commit() error
	rollback()
	// close is called once nothing runs any more.
	close()
}

// maxBatch bounds how many writes share a commit: the first of them waits for the last.
const maxBatch = 128

type job struct {
	work     func() error
	done     chan struct{}
	err      error
	panicked any // what work panicked with, and where
}

func newBatchWriter(tx batchTransaction) batchWriter {
	w := batchWriter{jobs: make(chan *job), pauses: make(chan func()), quit: make(chan struct{}), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.quit) })
	go func() {
		defer close(w.stopped)
		defer tx.close()
		for {
			select {
			case j := <-w.jobs:
				runBatch(tx, w.collect(j))
			case fn := <-w.pauses:
				fn()
			case <-w.quit:
				return
			}
		}
	}()
	return w
}

// collect returns first and those who wait behind it.
func (w batchWriter) collect(first *job) []*job {
	batch := []*job{first}
	for len(batch) < maxBatch {
		select {
		case j := <-w.jobs:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// runBatch runs all jobs in one transaction, and then tells them.
func runBatch(tx batchTransaction, batch []*job) {
	err := tx.begin()
	if err == nil {
		if err = runAll(tx, batch); err == nil {
			err = tx.commit()
		} else {
			tx.rollback()
		}
	}
	for _, j := range batch {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
}

// runAll runs the jobs one after the other. It returns an error when the transaction cannot go on.
func runAll(tx batchTransaction, batch []*job) error {
	if len(batch) == 1 { // the transaction itself is what it may take back
		return batch[0].run()
	}
	for _, j := range batch {
		if err := tx.mark(); err != nil {
			return err
		}
		failed := j.run()
		if failed != nil {
			if tx.undo() != nil { // SQLite has taken back the whole transaction, as it does when the disk is full
				if errors.Is(failed, ErrUnwritable) {
					return failed
				}
				return fmt.Errorf("%w: %v", ErrUnavailable, failed) // for all, whatever it means to this one
			}
		} else if err := tx.keep(); err != nil {
			return err
		}
	}
	return nil
}

// run returns the error of the work, or that it panicked.
func (j *job) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			j.panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			err = errPanicked
		}
	}()
	j.err = j.work()
	return j.err
}

func (w batchWriter) do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
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

// pause runs fn on the goroutine that writes, between two batches, unless ctx or the writer ends before it begins.
func (w batchWriter) pause(ctx context.Context, fn func()) {
	done := make(chan struct{})
	select {
	case w.pauses <- func() { defer close(done); fn() }:
		<-done
	case <-ctx.Done():
	case <-w.quit:
	}
}

// close waits for the batch that is running.
func (w batchWriter) close() {
	w.stop()
	<-w.stopped
}
