package models

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// batchWriter is the limiter of SQLite's one writer. One goroutine at a time writes on one connection, first come first
// served; what pauses the writing comes before all writes that wait, since it waits for a short time only. A write that
// finds nobody writing runs at once where it was called: waking another goroutine for it would cost more than a tenth of
// it. Those that come meanwhile wait, and then share a transaction and the sync of its commit. None of them returns before
// that: each acknowledged write is covered by a sync that began after it. Each write has a savepoint, and one that fails
// takes back only what it did itself. If the commit fails, all of the batch have failed, also those that only read what
// another one wrote.
type batchWriter struct {
	tx      batchTransaction
	wake    chan struct{} // hands busy over to the goroutine that runs those who wait
	stopped chan struct{} // closed once tx is

	mu     sync.Mutex
	busy   bool   // somebody runs jobs, and will call release
	queue  []*job // those who wait, which are none unless busy
	closed bool
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

// job is a write, or what runs alone, between two batches.
type job struct {
	work     func() error
	alone    bool
	done     chan struct{}
	err      error
	panicked any // what work panicked with, and where
}

func newBatchWriter(tx batchTransaction) *batchWriter {
	w := &batchWriter{tx: tx, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go func() {
		for range w.wake {
			w.run(w.next())
		}
	}()
	return w
}

// enter reports whether j is to run now, by a call of run. Otherwise j waits. It returns ErrUnavailable after the end.
func (w *batchWriter) enter(j *job) (now bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return false, ErrUnavailable
	case w.busy:
		at := len(w.queue)
		if j.alone {
			at = w.pauses()
		}
		w.queue = slices.Insert(w.queue, at, j)
		return false, nil
	}
	w.busy = true
	return true, nil
}

// pauses counts those who wait to run alone. They stand in front. The caller holds mu.
func (w *batchWriter) pauses() int {
	n := 0
	for n < len(w.queue) && w.queue[n].alone {
		n++
	}
	return n
}

// leave reports whether j waited, and no longer does.
func (w *batchWriter) leave(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, j)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	return i >= 0
}

// next takes those from the queue who run next. There are none if all have left.
func (w *batchWriter) next() []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	if w.pauses() > 0 {
		n = 1
	}
	batch := slices.Clone(w.queue[:n])
	w.queue = slices.Delete(w.queue, 0, n)
	return batch
}

// run runs jobs, and then lets others write.
func (w *batchWriter) run(jobs []*job) {
	defer w.release()
	switch {
	case len(jobs) == 0:
	case jobs[0].alone:
		defer close(jobs[0].done)
		jobs[0].work()
	default:
		runBatch(w.tx, jobs)
	}
}

// release ends being busy, or hands it over if somebody waits.
func (w *batchWriter) release() {
	w.mu.Lock()
	w.busy = len(w.queue) > 0
	if w.busy {
		w.wake <- struct{}{} // which has room: nobody else is busy
	}
	ended := w.closed && !w.busy
	w.mu.Unlock()
	if ended {
		w.end()
	}
}

// runBatch runs all jobs in one transaction, and then tells them. A transaction that panics is ended: whoever called may
// recover, and all later writes would find it open.
func runBatch(tx batchTransaction, batch []*job) {
	ended := false
	defer func() {
		if !ended {
			tx.rollback()
		}
	}()
	err := tx.begin()
	if err == nil {
		if err = runAll(tx, batch); err == nil {
			err = tx.commit()
		} else {
			tx.rollback()
		}
	}
	ended = true
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

func (w *batchWriter) do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
	j := &job{work: work, done: make(chan struct{})}
	now, err := w.enter(j)
	switch {
	case err != nil:
		return err
	case now:
		w.run([]*job{j})
	default:
		wait, cancel := context.WithTimeout(ctx, min(maxWait, time.Until(deadline)))
		defer cancel()
		if !w.await(wait, j) {
			return acquireErr(ctx, deadline)
		}
	}
	if j.panicked != nil {
		panic(j.panicked) // on the goroutine that can respond to it
	}
	return j.err
}

// await reports whether j, which waits, has run, or never will because the writer ends. It is false if ctx ends before j
// begins.
func (w *batchWriter) await(ctx context.Context, j *job) bool {
	select {
	case <-j.done:
	case <-ctx.Done():
		if w.leave(j) {
			return false
		}
		<-j.done
	}
	return true
}

// pause runs fn while nobody writes, unless ctx or the writer ends before it begins.
func (w *batchWriter) pause(ctx context.Context, fn func()) {
	j := &job{alone: true, work: func() error { fn(); return nil }, done: make(chan struct{})}
	now, err := w.enter(j)
	switch {
	case err != nil:
	case now:
		w.run([]*job{j})
	default:
		w.await(ctx, j)
	}
}

// close waits for the batch that is running. Those who wait get ErrUnavailable.
func (w *batchWriter) close() {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	refused := w.queue
	w.queue = nil
	busy := w.busy
	w.mu.Unlock()
	for _, j := range refused {
		j.err = ErrUnavailable
		close(j.done)
	}
	if first && !busy {
		w.end()
	}
	<-w.stopped
}

// end is called once, when nothing runs any more.
func (w *batchWriter) end() {
	close(w.wake)
	w.tx.close()
	close(w.stopped)
}
