package batch

import (
	"context"
	"sync"
	"time"

	"worldevents/models/internal/dberr"
)

// Batcher lets writes share transactions: first come, first served, with a bounded number of transactions at once. A goroutine for each
// of them takes the next write, and all that are queued behind it. They share the transaction, and the sync of its commit. Each write
// returns after that sync, so an acknowledged write is always on disk.
type Batcher struct {
	database Transactor
	queue    chan *Job
	closed   chan struct{}
	close    func()
	workers  sync.WaitGroup
}

// Transactor is what a batcher knows of a database.
type Transactor interface {
	// Acquire is queued for a connection until ctx ends or a time has come; the zero time never comes. Release
	// gives the connection back.
	Acquire(ctx context.Context, until time.Time) error
	Release()
	// Transact runs a batch in one transaction, without jobs that leave before it begins them, and then tells
	// the others how it ended.
	Transact(batch []*Job)
	// Close is called once nothing runs any more.
	Close()
}

const (
	// maxBatch bounds how many writes share a commit, since the first of them waits for the last.
	maxBatch = 128
	// MaxTransactions is how many transactions of writes an instance runs at once on a server: with more of them fewer writes share one.
	MaxTransactions = 2
)

// New returns a batcher, and starts the goroutines that run transactions, so many at once.
func New(database Transactor, transactions int) *Batcher {
	b := &Batcher{database: database, queue: make(chan *Job, maxBatch), closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() {
		close(b.closed)
		b.workers.Wait()
		database.Close()
	})
	for range transactions {
		b.workers.Go(b.work)
	}
	return b
}

// work runs one transaction after the other.
func (b *Batcher) work() {
	for {
		select {
		case j := <-b.queue:
			b.database.Acquire(context.Background(), time.Time{}) // this ends, because whatever holds a connection has a deadline
			batch := b.behind(j)
			for _, j := range batch {
				j.taken.Store(true)
			}
			b.database.Transact(batch)
			b.database.Release()
		case <-b.closed:
			return
		}
	}
}

// behind returns a job with those that are queued behind it.
func (b *Batcher) behind(j *Job) []*Job {
	batch := []*Job{j}
	for len(batch) < maxBatch {
		select {
		case j := <-b.queue:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// Apply runs the write of j and returns its error. It returns ErrBusy if no transaction has taken the write by giveUp, or has begun with it by
// its deadline, ErrTimeout if it has not ended by its deadline, and ErrUnavailable once the batcher is closed.
func (b *Batcher) Apply(ctx context.Context, j *Job, giveUp time.Time) error {
	if j.Deadline.Before(giveUp) {
		giveUp = j.Deadline
	}
	patience := time.NewTimer(time.Until(giveUp))
	defer patience.Stop()
	j.Reset()
	queue := b.queue
	for {
		var err error
		select {
		case queue <- j:
			queue = nil // which is never ready
			continue
		case <-j.done:
			return j.end()
		case <-b.closed:
			err = dberr.ErrUnavailable
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

// Do runs work in a transaction. It implements Limiter.
func (b *Batcher) Do(ctx context.Context, deadline, giveUp time.Time, work func() error) error {
	return b.Apply(ctx, &Job{Deadline: deadline, work: work}, giveUp)
}

// Close waits for running transactions. Queued jobs get ErrUnavailable.
func (b *Batcher) Close() { b.close() }
