package eventlist

import (
	"context"
	"maps"
	"slices"
	"time"
)

// A sweep looks at every list that is waited for, for changes of which no hint has come. While the hints of other
// instances arrive it takes patientSweep, else hastySweep, unless there are so many lists that this would be more than
// patientRate or hastyRate of them a second. A sweep begins when something was written since the last one began, which
// is asked for after patientPoll or hastyPoll.
const (
	patientSweep, hastySweep = 4 * time.Second, 1500 * time.Millisecond
	patientRate, hastyRate   = 250, 700
	patientPoll, hastyPoll   = 500 * time.Millisecond, 250 * time.Millisecond
	// maxSwept is how many lists of a sweep wait to be read.
	maxSwept = 64
)

// sweepAll sweeps until end.
func (h *hub) sweepAll(end <-chan struct{}) {
	store := h.lists.store
	swept, last := false, int64(0)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), store.Timeout())
		position, err := store.WritePosition(ctx)
		cancel()
		if err != nil || !swept || position != last {
			h.sweepOnce(end)
		}
		swept, last = err == nil, position
		poll := hastyPoll
		if store.Hears() {
			poll = patientPoll
		}
		if !pause(time.Now().Add(poll), end) {
			return
		}
	}
}

// sweepOnce has each list read that was not since it was called, beginning with the one that was read longest ago.
func (h *hub) sweepOnce(end <-chan struct{}) {
	h.mu.Lock()
	begin := time.Now()
	h.swept = begin
	lists := slices.Collect(maps.Values(h.watched))
	// In any other order one could be the first of a sweep and the last of the next, and be read half as often.
	slices.SortFunc(lists, func(a, b *watchedList) int { return a.begun[0].Compare(b.begun[0]) })
	h.mu.Unlock()
	next := time.Now()
	for _, w := range lists {
		h.mu.Lock()
		if h.watched[w.key] == w && w.begun[0].Before(begin) {
			h.want(w, sweep)
		}
		waiting := len(h.queue.later)
		h.mu.Unlock()
		duration, rate := hastySweep, hastyRate
		if h.lists.store.Hears() {
			duration, rate = patientSweep, patientRate
		}
		next = next.Add(max(duration/time.Duration(len(lists)), time.Second/time.Duration(rate)))
		if waiting >= maxSwept {
			next = time.Now().Add(lastRetry)
		}
		if !pause(next, end) {
			return
		}
	}
}

// pause waits until then, and reports whether end was not before that.
func pause(until time.Time, end <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-end:
		return false
	}
}
