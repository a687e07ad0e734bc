package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"worldevents/models/internal/dberr"
)

// Batcher lets writes share transactions: first come, first served, with at most most transactions at once.
//
// A write that finds a free place runs at once on the goroutine of its caller: waking another goroutine would
// cost more than a tenth of the write. Writes that come while all places are taken are queued, and then share
// one transaction and the sync of its commit. Each of them returns after that sync, so an acknowledged write is
// always on disk.
//
// A Pause goes in front of all queued writes, because it may be queued only for a short time. Only SQLite
// needs pauses, and it has one writer.
type Batcher struct {
	database Transactor
	most     int
	// wake hands the place of a transaction to a goroutine that runs the next batch.
	wake chan struct{}
	// stopped is closed once the database is closed.
	stopped chan struct{}

	mu sync.Mutex
	// running is how many transactions are under way. Each of them will call release.
	running int
	// queue is empty unless running is most.
	queue  []*Job
	closed bool
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
	// MaxTransactions is how many transactions of writes an instance runs at once on a server. With one, the
	// processors would rest during each commit. With one for each connection, each write would have a commit of
	// its own.
	MaxTransactions = 4
)

// New returns a batcher, and starts the goroutines that run batches of queued writes.
func New(database Transactor, most int) *Batcher {
	b := &Batcher{database: database, most: most, wake: make(chan struct{}, most), stopped: make(chan struct{})}
	for range most {
		go func() {
			for range b.wake {
				database.Acquire(context.Background(), time.Time{}) // this ends, because whatever holds a connection has a deadline
				b.run(b.next())
			}
		}()
	}
	return b
}

// enter reports whether j may run now; the caller then calls runNow. Otherwise j is queued. It returns
// ErrUnavailable once the batcher is closed.
func (b *Batcher) enter(j *Job) (now bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false, dberr.ErrUnavailable
	case b.running == b.most:
		at := len(b.queue)
		if j.alone {
			at = b.pauses()
		}
		b.queue = slices.Insert(b.queue, at, j)
		return false, nil
	}
	b.running++
	return true, nil
}

// pauses counts the queued jobs that are to run alone. They stand in front. The caller holds mu.
func (b *Batcher) pauses() int {
	n := 0
	for n < len(b.queue) && b.queue[n].alone {
		n++
	}
	return n
}

// leave takes j out of the queue. It reports whether j has not begun, and now never will.
func (b *Batcher) leave(j *Job) bool {
	b.mu.Lock()
	if i := slices.Index(b.queue, j); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	b.mu.Unlock()
	return j.leave()
}

// next takes the jobs of the next batch from the queue. There are none if all have left meanwhile.
func (b *Batcher) next() []*Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), maxBatch)
	if b.pauses() > 0 {
		n = 1
	}
	batch := slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	return batch
}

// run runs jobs on the connection that the caller has acquired, and then lets the next batch write.
func (b *Batcher) run(jobs []*Job) {
	defer b.release()
	defer b.database.Release()
	switch {
	case len(jobs) == 0:
	case jobs[0].alone:
		defer close(jobs[0].done)
		if jobs[0].begin() {
			jobs[0].work()
		}
	default:
		b.database.Transact(jobs)
	}
}

// release ends a transaction's place, or hands it over if somebody is queued. The next batch then begins
// without a moment in which a newcomer could overtake it.
func (b *Batcher) release() {
	b.mu.Lock()
	if len(b.queue) > 0 {
		b.wake <- struct{}{} // never blocks: it has room for each place
	} else {
		b.running--
	}
	ended := b.closed && b.running == 0
	b.mu.Unlock()
	if ended {
		b.end()
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
	now, err := b.enter(j)
	switch {
	case err != nil:
		j.leave()
	case now:
		err = b.runNow(ctx, giveUp, j)
	default:
		wait, cancel := context.WithDeadline(ctx, giveUp)
		defer cancel()
		err = b.await(wait, j)
	}
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

// runNow runs j on the goroutine of its caller.
func (b *Batcher) runNow(ctx context.Context, giveUp time.Time, j *Job) error {
	if err := b.database.Acquire(ctx, giveUp); err != nil {
		j.leave()
		b.release()
		return err
	}
	b.run([]*Job{j})
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
	if j.Write != nil {
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

// Pause runs fn while nobody writes. It does nothing if ctx ends, or the batcher is closed, before that.
func (b *Batcher) Pause(ctx context.Context, fn func()) {
	j := &Job{alone: true, work: func() error { fn(); return nil }, done: make(chan struct{})}
	now, err := b.enter(j)
	switch {
	case err != nil:
	case now:
		b.runNow(ctx, time.Time{}, j)
	default:
		b.await(ctx, j)
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
	close(b.wake)
	b.database.Close()
	close(b.stopped)
}
