package batch

import (
	"context"
	"errors"
	"sync"
	"time"

	"worldevents/models/internal/dberr"
)

// Batcher lets writes share transactions: first come, first served, with at most most transactions at once.
//
// Writes that are queued begin a transaction once they are half as many as those in transactions. They share it,
// and the sync of its commit. Each of them returns after that sync, so an acknowledged write is always on disk.
//
// A write that comes alone, and may begin, runs on the goroutine of its caller: waking another goroutine would cost
// more than a tenth of the write. Whoever begins a transaction first lets those run who are ready on its processor.
// Those who are about to write come along: the busier the processors are, the more writes share a transaction.
type Batcher struct {
	database Transactor
	most     int
	// wake hands the place of a transaction to a goroutine that runs the next batch.
	wake chan struct{}
	// stopped is closed once the database is closed.
	stopped chan struct{}

	mu sync.Mutex
	// running is how many transactions are under way, and writing how many jobs they have. Each of them will call
	// release.
	running, writing int
	// gathering means that one of those transactions will take its jobs from the queue, and has not yet.
	gathering bool
	queue     []*Job
	closed    bool
	// late fires every patience while jobs are queued, and then those begin who are there; armed means that it will.
	late  *time.Timer
	armed bool
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
	// MaxTransactions is how many transactions of writes an instance runs at once on a server. They are seldom more
	// than three, unless some wait for locks.
	MaxTransactions = 4
	// patience is how long a write is queued at most while a transaction could begin: those under way may wait for a
	// lock, and may be many.
	patience = 10 * time.Millisecond
)

// New returns a batcher, and starts the goroutines that run batches of queued writes.
func New(database Transactor, most int) *Batcher {
	b := &Batcher{database: database, most: most, wake: make(chan struct{}, most), stopped: make(chan struct{})}
	b.late = time.AfterFunc(patience, b.startLate)
	for range most {
		go func() {
			for range b.wake {
				b.yield()
				database.Acquire(context.Background(), time.Time{}) // this ends, because whatever holds a connection has a deadline
				b.run(b.next())
			}
		}()
	}
	return b
}

// run runs jobs on the connection that the caller has acquired, and then lets the next batch write.
func (b *Batcher) run(jobs []*Job) {
	defer b.release(len(jobs))
	defer b.database.Release()
	if len(jobs) > 0 {
		b.database.Transact(jobs)
	}
}

// Apply runs the write of j and returns its error. It returns ErrBusy if the write has not begun by giveUp, and
// ErrTimeout if it has not ended by its deadline.
func (b *Batcher) Apply(ctx context.Context, j *Job, giveUp time.Time) error {
	return b.submit(ctx, j.Deadline, giveUp, j)
}

// Do runs work in a transaction. It implements Limiter.
func (b *Batcher) Do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
	return b.submit(ctx, deadline, time.Now().Add(maxWait), &Job{work: work})
}

// submit runs j, or gives up on it if it has not begun by giveUp.
func (b *Batcher) submit(ctx context.Context, deadline, giveUp time.Time, j *Job) error {
	j.Reset()
	if deadline.Before(giveUp) {
		giveUp = deadline
	}
	err := b.through(ctx, giveUp, j)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return AcquireErr(ctx, deadline)
	case err != nil:
		return err
	case j.panicked != nil:
		panic(j.panicked) // on the goroutine that can respond to it
	}
	return j.Err
}

// through takes j through the queue, and returns once it has run or never will.
func (b *Batcher) through(ctx context.Context, giveUp time.Time, j *Job) error {
	first, err := b.enter(j)
	if err != nil {
		j.leave()
		return err
	}
	if first {
		if batch := b.gather(j); batch != nil {
			return b.runNow(ctx, giveUp, batch)
		}
	}
	if !giveUp.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, giveUp)
		defer cancel()
	}
	return b.await(ctx, j)
}

// runNow runs a job on the goroutine of its caller.
func (b *Batcher) runNow(ctx context.Context, giveUp time.Time, batch []*Job) error {
	if err := b.database.Acquire(ctx, giveUp); err != nil {
		batch[0].leave()
		b.release(1)
		return err
	}
	b.run(batch)
	return nil
}

// await returns once the queued job j has run, or never will because the batcher was closed. It returns the
// error of ctx if ctx ends before j begins.
//
// A write that has begun runs on without its caller: at its deadline await returns ErrTimeout, and nobody knows
// what will become of the write. Other work uses variables of its caller, so its caller waits until it has
// ended.
func (b *Batcher) await(ctx context.Context, j *Job) error {
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
	}
	if b.leave(j) {
		return ctx.Err()
	}
	var late <-chan time.Time
	if j.work == nil {
		timer := time.NewTimer(time.Until(j.Deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-j.done:
		return nil
	case <-late:
		return dberr.ErrTimeout
	}
}

// Close waits for running transactions. Queued jobs get ErrUnavailable.
func (b *Batcher) Close() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	refused := b.queue
	b.queue = nil
	idle := b.running == 0
	b.mu.Unlock()
	for _, j := range refused {
		j.End(dberr.ErrUnavailable)
	}
	if first && idle {
		b.end()
	}
	<-b.stopped
}

// end is called once, when nothing runs any more.
func (b *Batcher) end() {
	b.late.Stop()
	close(b.wake)
	b.database.Close()
	close(b.stopped)
}
