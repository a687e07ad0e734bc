package eventlist

import (
	"context"
	"slices"
	"time"
)

// Sweeping finds changes of which no hint has come. A list is due patientRest after its last reading while the hints of other
// instances arrive, else hastyRest, if something was written since. Whether that is so is asked for every patientPoll or
// hastyPoll. At most patientRate or hastyRate lists a second are swept, first those that were read longest ago.
const (
	patientRest, hastyRest = 3500 * time.Millisecond, 1200 * time.Millisecond
	patientPoll, hastyPoll = 500 * time.Millisecond, 250 * time.Millisecond
	patientRate, hastyRate = 250, 700
	// maxSwept is how many lists of a sweep wait to be read.
	maxSwept = 64
)

// pace is how sweeping goes while hints arrive or do not.
type pace struct {
	rest, poll time.Duration
	rate       int
}

// sweepAll sweeps until end.
func (h *hub) sweepAll(end <-chan struct{}) {
	store := h.lists.store
	var last int64
	var written time.Time // lists whose reading began earlier may be too old
	for known := false; ; {
		ctx, cancel := context.WithTimeout(context.Background(), store.Timeout())
		position, err := store.WritePosition(ctx)
		cancel()
		if !known || err != nil || position != last {
			written = time.Now() // a write that is in the position may be later than a reading that began meanwhile
		}
		known, last = err == nil, position
		p := pace{hastyRest, hastyPoll, hastyRate}
		if h.hears() {
			p = pace{patientRest, patientPoll, patientRate}
		}
		if !h.sweepDue(written, p, end) {
			return
		}
	}
}

// sweepDue has lists read that are due, for as long as p.poll. It reports whether end was not before that.
func (h *hub) sweepDue(written time.Time, p pace, end <-chan struct{}) (more bool) {
	begin := time.Now()
	next := begin
	for _, w := range h.due(written, begin.Add(p.poll-p.rest)) {
		h.mu.Lock()
		waiting := h.later
		if h.watched[w.key] == w && waiting < maxSwept {
			h.want(w, sweep)
		}
		h.mu.Unlock()
		next = next.Add(time.Second / time.Duration(p.rate))
		if waiting >= maxSwept || next.Sub(begin) >= p.poll { // the others are still due the next time
			break
		}
		if !pause(next, end) {
			return false
		}
	}
	return pause(begin.Add(p.poll), end)
}

// due returns the lists that were last read before both times and are not to be read anyhow, those read longest ago first.
func (h *hub) due(written, rested time.Time) (lists []*watchedList) {
	if rested.Before(written) {
		written = rested
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watched {
		if w.wanted < sweep && !w.reading && len(w.watchers) > 0 && w.begun[0].Before(written) {
			lists = append(lists, w)
		}
	}
	slices.SortFunc(lists, func(a, b *watchedList) int { return a.begun[0].Compare(b.begun[0]) })
	return lists
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
