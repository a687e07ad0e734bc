package batch

import (
	"slices"
	"sync/atomic"
	"time"
)

// Job is a write, or what only runs on SQLite: other work in a transaction, or what runs alone, between two transactions.
type Job struct {
	Write    *Write
	Deadline time.Time     // of the write
	work     func() error  // nil for a write
	alone    bool          // work runs alone
	Waiting  *atomic.Int64 // is one more while the job waits; may be nil

	begun    atomic.Int64 // when it was handed to the database, in nanoseconds since 1970; 0 while it waits, gone once it has left
	done     chan struct{}
	Changed  bool // the write has changed a row
	Err      error
	panicked any // what work panicked with, and where
}

// gone is when a job begins that never will.
const gone = -1

// Reset has a job wait anew.
func (j *Job) Reset() {
	j.done, j.Changed, j.Err = make(chan struct{}), false, nil
	j.begun.Store(0)
	if j.Waiting != nil {
		j.Waiting.Add(1)
	}
}

// begin reports whether j is to be handed to the database. Once it is, nobody but the database knows what becomes of it.
func (j *Job) begin() bool { return j.endWait(time.Now().UnixNano()) || j.begun.Load() != gone }

// leave reports whether j has not begun, and never will.
func (j *Job) leave() bool { return j.endWait(gone) }

func (j *Job) endWait(begun int64) (ended bool) {
	ended = j.begun.CompareAndSwap(0, begun)
	if ended && j.Waiting != nil {
		j.Waiting.Add(-1)
	}
	return ended
}

// Started is when j has begun, zero if it never did.
func (j *Job) Started() time.Time {
	if begun := j.begun.Load(); begun > 0 {
		return time.Unix(0, begun)
	}
	return time.Time{}
}

// Begin returns those of the jobs that are to be handed to the database: the others have left.
func Begin(jobs []*Job) []*Job {
	return slices.DeleteFunc(jobs, func(j *Job) bool { return !j.begin() })
}

// End tells the caller.
func (j *Job) End(err error) {
	if err != nil {
		j.Err = err
	}
	close(j.done)
}
