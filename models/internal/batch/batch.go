package batch

import (
	"context"
	"sync"
	"time"

	"worldevents/models/internal/dberr"
)

// Batcher lets writes share transactions, of which it runs one at a time, first come, first served. A write that meets none has the next
// alone. All that are queued when one ends share the next, and the sync of its commit. Each write returns after that sync, so an
// acknowledged write is always on disk.
type Batcher struct {
	database Transactor
	onCaller bool

	mu      sync.Mutex
	busy    bool // a transaction runs
	queue   []*Job
	closed  bool
	running sync.WaitGroup
}

// Transactor is a batcher's view of a database.
type Transactor interface {
	// Acquire queues for a connection until ctx ends or until a time; the zero time never comes. Release returns the connection.
	Acquire(ctx context.Context, until time.Time) error
	Release()
	// Transact runs a batch in one transaction, without jobs that leave before it begins them, and then ends the others.
	Transact(batch []*Job)
	Close()
}

// maxBatch bounds the writes that share a commit, since the first of them waits for the last.
const maxBatch = 128

// New returns a batcher. With onCaller the database ends a transaction of one job by its deadline: a job that meets no transaction runs on
// the goroutine of its caller, and spares the processor two switches.
func New(database Transactor, onCaller bool) *Batcher {
	return &Batcher{database: database, onCaller: onCaller}
}

// Apply runs the write of j and returns its error: ErrBusy if no transaction has taken the write by giveUp, or has begun it by its
// deadline, ErrTimeout if it has not ended by its deadline, and ErrUnavailable once the batcher is closed.
func (b *Batcher) Apply(ctx context.Context, j *Job, giveUp time.Time) error {
	if j.Deadline.Before(giveUp) {
		giveUp = j.Deadline
	}
	j.Reset()
	switch isAlone, err := b.admit(j); {
	case err != nil:
		return err
	case isAlone:
		return b.alone(ctx, j, giveUp)
	}
	patience := time.NewTimer(time.Until(giveUp))
	defer patience.Stop()
	for {
		var err error
		select {
		case <-j.done:
			return j.end()
		case <-ctx.Done():
			err = dberr.Classify(ctx.Err())
		case <-patience.C:
			if err = AcquireErr(ctx, j.Deadline); j.taken.Load() { // it may wait for the lock of another process
				if time.Now().Before(j.Deadline) {
					patience.Reset(time.Until(j.Deadline))
					continue
				}
				err = dberr.ErrBusy
			}
		}
		if j.Leave() {
			return err
		}
		return j.await()
	}
}

// admit queues j, unless the caller is to run it alone.
func (b *Batcher) admit(j *Job) (isAlone bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		j.Leave()
		return false, dberr.ErrUnavailable
	}
	if !b.busy {
		b.busy = true
		b.running.Add(1)
		if b.onCaller {
			return true, nil
		}
		go b.work([]*Job{j})
		return false, nil
	}
	b.queue = append(b.queue, j)
	return false, nil
}

// alone runs a job that met no transaction. Jobs that were queued meanwhile are next.
func (b *Batcher) alone(ctx context.Context, j *Job, giveUp time.Time) error {
	defer func() {
		if b.isWanted() {
			go b.work(nil)
		}
	}()
	if b.database.Acquire(ctx, giveUp) != nil {
		j.Leave()
		return AcquireErr(ctx, j.Deadline)
	}
	defer b.database.Release()
	b.database.Transact([]*Job{j})
	return j.end()
}

// work runs a transaction with a batch, unless it is nil, and then others while jobs are queued.
func (b *Batcher) work(batch []*Job) {
	for wanted := true; wanted; wanted = b.isWanted() {
		b.database.Acquire(context.Background(), time.Time{}) // this ends, because every use of a connection has a deadline
		if batch == nil {
			batch = b.take()
		}
		for _, j := range batch {
			j.taken.Store(true)
		}
		b.database.Transact(batch)
		b.database.Release()
		batch = nil
	}
}

// take takes the next batch from the queue.
func (b *Batcher) take() []*Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.queue
	if b.queue = nil; len(batch) > maxBatch {
		batch, b.queue = batch[:maxBatch:maxBatch], batch[maxBatch:]
	}
	return batch
}

// isWanted reports whether another transaction is to begin after one that has ended.
func (b *Batcher) isWanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 {
		return true
	}
	b.busy = false
	b.running.Done()
	return false
}

// Do runs work in a transaction. It implements Limiter.
func (b *Batcher) Do(ctx context.Context, deadline, giveUp time.Time, work func() error) error {
	return b.Apply(ctx, &Job{Deadline: deadline, work: work}, giveUp)
}

// Close waits for running transactions. Queued jobs get ErrUnavailable.
func (b *Batcher) Close() {
	b.mu.Lock()
	first, queued := !b.closed, b.queue
	b.closed, b.queue = true, nil
	b.mu.Unlock()
	for _, j := range queued {
		if j.Leave() {
			j.Err = dberr.ErrUnavailable
			close(j.done)
		}
	}
	b.running.Wait()
	if first {
		b.database.Close()
	}
}
