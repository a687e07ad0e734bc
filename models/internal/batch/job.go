package batch

import (
	"slices"
	"sync/atomic"
	"time"

	"worldevents/models/internal/dberr"
)

// Job is a write, or a question. On SQLite it may also be other work in a transaction.
type Job struct {
	Write    *Write
	Question any           // what is asked, where jobs are not writes; its Transactor knows the type
	Deadline time.Time     // of the write
	work     func() error  // nil for a write
	Waiting  *atomic.Int64 // counts jobs that are queued; may be nil

	// state is one word, so that the batcher that begins the job and the caller that gives up on it can race for it
	// with CompareAndSwap: exactly one of them wins.
	state    atomic.Int32
	taken    atomic.Bool // by a transaction that has a connection, and may wait for a lock before it begins
	started  time.Time   // when the job was handed to the database, once state is begun
	done     chan struct{}
	Changed  bool // the write has changed a row
	Err      error
	panicked any // what work panicked with, and the stack
}

// States of a job.
const (
	queued = iota
	begun
	gone // its caller has left, and it never runs
)

// Reset queues a job anew.
func (j *Job) Reset() {
	j.done, j.Changed, j.Err = make(chan struct{}), false, nil
	j.state.Store(queued)
	j.taken.Store(false)
	if j.Waiting != nil {
		j.Waiting.Add(1)
	}
}

// begin reports whether j may be handed to the database. From then on only the database knows what becomes of
// it.
func (j *Job) begin() bool {
	if j.state.Load() == queued {
		j.started = time.Now()
	}
	return j.endWait(begun) || j.state.Load() == begun
}

// Leave reports whether j has not begun, and now never will.
func (j *Job) Leave() bool { return j.endWait(gone) }

func (j *Job) endWait(state int32) (ended bool) {
	ended = j.state.CompareAndSwap(queued, state)
	if ended && j.Waiting != nil {
		j.Waiting.Add(-1)
	}
	return ended
}

// await returns once a job has ended that has begun, or never will. A write runs on without its caller: at its deadline await returns ErrTimeout, and
// nobody knows what will become of it. Other work uses variables of its caller, so its caller waits until it has ended.
func (j *Job) await() error {
	if j.work != nil || j.state.Load() == gone {
		<-j.done
		return j.end()
	}
	late := time.NewTimer(time.Until(j.Deadline))
	defer late.Stop()
	select {
	case <-j.done:
		return j.end()
	case <-late.C:
		return dberr.ErrTimeout
	}
}

// end returns the error of a job that has ended. It panics as the work did, on the goroutine that can respond to it.
func (j *Job) end() error {
	if j.panicked != nil {
		panic(j.panicked)
	}
	return j.Err
}

// Started is when j began, zero if it never did.
func (j *Job) Started() time.Time {
	if j.state.Load() == begun {
		return j.started
	}
	return time.Time{}
}

// Begin returns the jobs that may be handed to the database. The others have left.
func Begin(jobs []*Job) []*Job {
	return slices.DeleteFunc(jobs, func(j *Job) bool { return !j.begin() })
}

// End tells the caller how the job ended, which may be before it began.
func (j *Job) End(err error) {
	j.Leave()
	if err != nil {
		j.Err = err
	}
	close(j.done)
}
