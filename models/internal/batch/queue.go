package batch

import (
	"runtime"
	"slices"

	"worldevents/models/internal/dberr"
)

// enter queues j. It reports whether j is to begin a transaction; the caller then calls gather. It returns
// ErrUnavailable once the batcher is closed.
func (b *Batcher) enter(j *Job) (first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, dberr.ErrUnavailable
	}
	b.queue = append(b.queue, j)
	if len(b.queue) == 1 && b.begin(false) {
		return true, nil
	}
	b.start(false)
	return false, nil
}

// begin takes a place for those who are queued, if they are enough, or late, and if there is one. The caller holds mu.
func (b *Batcher) begin(late bool) bool {
	enough := b.running == 0 || 2*len(b.queue) >= b.writing || len(b.queue) >= maxBatch
	if len(b.queue) == 0 || b.gathering || b.running == b.most || !enough && !late {
		return false
	}
	b.gathering = true
	b.running++
	return true
}

// start has a goroutine begin a transaction of those who are queued, or looks again when they are late. The caller
// holds mu.
func (b *Batcher) start(late bool) {
	switch {
	case b.begin(late):
		b.wake <- struct{}{} // never blocks: it has room for each place
	case len(b.queue) > 0 && !b.armed:
		b.armed = true
		b.late.Reset(patience)
	}
}

func (b *Batcher) startLate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	b.start(true)
}

// gather returns j if nobody has come since it was queued, so that its caller runs it. Otherwise a goroutine will run
// those who are queued.
func (b *Batcher) gather(j *Job) []*Job {
	b.yield()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) != 1 || b.queue[0] != j {
		b.wake <- struct{}{}
		return nil
	}
	return b.take()
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

// yield lets those run who are ready on this processor: they may be about to write. With one transaction at a time
// they come along without it, since they come while that one runs.
func (b *Batcher) yield() {
	if b.most > 1 {
		runtime.Gosched()
	}
}

// next is take for a goroutine of the batcher. There are no jobs if all have left meanwhile.
func (b *Batcher) next() []*Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take()
}

// take takes the jobs of the next batch from the queue. The caller holds mu.
func (b *Batcher) take() []*Job {
	n := min(len(b.queue), maxBatch)
	batch := slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	b.writing += n
	b.gathering = false
	b.start(false) // those who had no room
	return batch
}

// release ends a transaction of so many jobs. The next one then begins without a moment in which a newcomer could
// overtake those who are queued.
func (b *Batcher) release(jobs int) {
	b.mu.Lock()
	b.running--
	b.writing -= jobs
	b.start(false)
	ended := b.closed && b.running == 0
	b.mu.Unlock()
	if ended {
		b.end()
	}
}
