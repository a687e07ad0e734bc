package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"worldevents/models/internal/dberr"
)

// Batcher lets writes share transactions, at most most of them at once: first come, first served. A write that finds fewer under
// way runs at once where it was called: waking another goroutine for it would cost more than a tenth of it. Those that come
// meanwhile wait, and then share a transaction and the sync of its commit. None of them returns before that: each acknowledged
// write is covered by a sync that began after it.
//
// On SQLite, which has one writer, what pauses the writing comes before all writes that wait, since it waits for a short time only.
type Batcher struct {
	database Transactor
	most     int
	wake     chan struct{} // hands the place of a transaction over to a goroutine that runs those who wait
	stopped  chan struct{} // closed once database is

	mu      sync.Mutex
	running int    // how many transactions are under way; each of them will call release
	queue   []*Job // those who wait, which are none unless running is most
	closed  bool
}

// Transactor is what a batcher knows of a database.
type Transactor interface {
	// Acquire waits for a connection, until ctx ends or a time has come, zero for never. release gives it back.
	Acquire(ctx context.Context, until time.Time) error
	Release()
	// Transact runs jobs in one transaction, but those that leave before it begins them, and then tells them.
	Transact(batch []*Job)
	// Close is called once nothing runs any more.
	Close()
}

const (
	// maxBatch bounds how many writes share a commit: the first of them waits for the last.
	maxBatch = 128
	// MaxTransactions is how many transactions of writes a server runs at once for an instance. With one the processors rest while it
	// commits; with as many as there are connections each write has a commit of its own.
	MaxTransactions = 4
)

func New(database Transactor, most int) *Batcher {
	b := &Batcher{database: database, most: most, wake: make(chan struct{}, most), stopped: make(chan struct{})}
	for range most {
		go func() {
			for range b.wake {
				database.Acquire(context.Background(), time.Time{}) // which comes to an end, since all that holds one does
				b.run(b.next())
			}
		}()
	}
	return b
}

// enter reports whether j is to run now, by a call of runNow. Otherwise j waits. It returns ErrUnavailable after the end.
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

// pauses counts those who wait to run alone. They stand in front. The caller holds mu.
func (b *Batcher) pauses() int {
	n := 0
	for n < len(b.queue) && b.queue[n].alone {
		n++
	}
	return n
}

// leave reports whether j has not begun, and never will.
func (b *Batcher) leave(j *Job) bool {
	b.mu.Lock()
	if i := slices.Index(b.queue, j); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	b.mu.Unlock()
	return j.leave()
}

// next takes those from the queue who run next. There are none if all have left.
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

// run runs jobs on the connection that the caller has acquired, and then lets others write.
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

// release gives the place of a transaction back, or hands it over if somebody waits.
func (b *Batcher) release() {
	b.mu.Lock()
	if len(b.queue) > 0 {
		b.wake <- struct{}{} // which has room: there is one for each place
	} else {
		b.running--
	}
	ended := b.closed && b.running == 0
	b.mu.Unlock()
	if ended {
		b.end()
	}
}

// Apply runs the write of j, and returns its error: ErrBusy if it has not begun by giveUp, and ErrTimeout if it has not ended by its
// deadline.
func (b *Batcher) Apply(ctx context.Context, j *Job, giveUp time.Time) error {
	return b.submit(ctx, j.Deadline, giveUp, j)
}

// Do runs work in a transaction; see limiter.
func (b *Batcher) Do(ctx context.Context, deadline time.Time, maxWait time.Duration, work func() error) error {
	return b.submit(ctx, deadline, time.Now().Add(maxWait), &Job{work: work})
}

// submit runs j, unless it has not begun by giveUp.
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

// runNow runs j where it was called.
func (b *Batcher) runNow(ctx context.Context, giveUp time.Time, j *Job) error {
	if err := b.database.Acquire(ctx, giveUp); err != nil {
		j.leave()
		b.release()
		return err
	}
	b.run([]*Job{j})
	return nil
}

// await returns once j, which waits, has run, or never will because the batcher ends. It returns the error of ctx if that ends
// before j begins, and ErrTimeout if a write has begun and does not end by its deadline: nobody knows what will become of it.
// Other work uses what belongs to its caller, who therefore waits for it.
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

// Pause runs fn while nobody writes, unless ctx or the batcher ends before it begins.
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

// Close waits for the transactions that are running. Those who wait get ErrUnavailable.
func (b *Batcher) Close() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	refused := b.queue
	b.queue = nil
	idle := b.running == 0
	b.mu.Unlock()
	for _, j := range refused {
		j.leave()
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
