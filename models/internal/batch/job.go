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
	Question any           // where jobs are not writes; the Transactor knows the type
	Deadline time.Time     // of the write
	work     func() error  // nil for a write
	Waiting  *atomic.Int64 // counts jobs that are queued; may be nil

	// state is one word, so that the batcher, which begins the job, and a caller that gives up race for it with CompareAndSwap: one wins.
	state    atomic.Int32
	taken    atomic.Bool // by a transaction that has a connection, and may wait for a lock before it begins
	started  time.Time   // when the job was handed to the database, once state is begun
	done     chan struct{}
	Changed  bool // the write has changed a row
	Err      error
	panicked any // the panic of work, and its stack
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

// begin reports whether j may go to the database. From then on only the database knows what becomes of it.
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

// await returns once a job has ended, begun or not. At the deadline of a write await returns ErrTimeout, while the write continues, and
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

// end returns the error of a job that has ended. It repeats a panic of the work on the goroutine that can respond to it.
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

// Begin returns the jobs that may go to the database. The others have left.
func Begin(jobs []*Job) []*Job {
	return slices.DeleteFunc(jobs, func(j *Job) bool { return !j.begin() })
}

// End ends a job, which may not have begun, and returns err to its caller.
func (j *Job) End(err error) {
	j.Leave()
	if err != nil {
		j.Err = err
	}
	close(j.done)
}
