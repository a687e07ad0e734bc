package eventlist

import "time"

const (
	// A list is read for those who wait maxRate times a second at most. After a hint it is read at once, but no
	// sooner than hintRest after the last time that a hint was the cause. For newcomers alone, whose list and session are yet to be
	// verified, it is read no sooner than arrivalRest after the last reading: thousands who come back from an instance that
	// stops take seconds to arrive, and hints and sweeps find a change meanwhile.
	maxRate     = 4
	hintRest    = 250 * time.Millisecond
	arrivalRest = 3 * time.Second
	// maxReaders is how many lists are read at once for those who wait.
	maxReaders = 4
	// After a reading that failed nothing is read for firstRetry, and twice as long after each further one, up to lastRetry.
	firstRetry = 25 * time.Millisecond
	lastRetry  = 400 * time.Millisecond
)

// cause is why a list is read for those who wait. A greater one is more urgent.
type cause int

const (
	none cause = iota
	arrival
	sweep
	notified
	ownWrite
)

// causeNames are those of metrics.
var causeNames = [...]string{arrival: "arrival", sweep: "sweep", notified: "hint", ownWrite: "own_write"}

// readState says when a list that is waited for was read, and when it will be.
type readState struct {
	wanted  cause
	hinted  time.Time // of the first own write that is not in the list yet
	round   uint64    // number of the last reading
	reading bool
	failed  bool // the last reading
	queued  bool
	timer   *time.Timer
	begun   [maxRate]time.Time // the last readings, the latest first
	byHint  time.Time          // the last one that a hint caused
}

// begin takes notice of a reading.
func (s *readState) begin(why cause, now time.Time) {
	copy(s.begun[1:], s.begun[:])
	s.begun[0] = now
	if why >= notified {
		s.byHint = now
	}
	s.round++
}

// earliest returns when the list may be read.
func (s *readState) earliest() time.Time {
	at := s.begun[maxRate-1].Add(time.Second)
	rest := s.begun[0]
	switch {
	case s.wanted == arrival:
		rest = s.begun[0].Add(arrivalRest)
	case s.wanted >= notified:
		rest = s.byHint.Add(hintRest)
	}
	if again := s.begun[0].Add(hintRest); s.failed && again.After(rest) {
		rest = again
	}
	if rest.After(at) {
		return rest
	}
	return at
}

// readQueue is the lists to read, the urgent ones first.
type readQueue struct {
	urgent, later []*watchedList
	readers       int // goroutines that read
	failures      int // of readings, in a row
}

func (q *readQueue) push(w *watchedList) {
	if w.wanted >= notified {
		q.urgent = append(q.urgent, w)
	} else {
		q.later = append(q.later, w)
	}
}

func (q *readQueue) pop() *watchedList {
	from := &q.urgent
	if len(*from) == 0 {
		from = &q.later
	}
	if len(*from) == 0 {
		return nil
	}
	w := (*from)[0]
	(*from)[0] = nil
	if *from = (*from)[1:]; len(*from) == 0 {
		*from = nil
	}
	return w
}

// want has w read, once it may be and somebody waits for it.
func (h *hub) want(w *watchedList, why cause) {
	if why == ownWrite && w.hinted.IsZero() {
		w.hinted = time.Now()
	}
	w.wanted = max(w.wanted, why)
	h.schedule(w) // also if it was wanted before: perhaps nobody waited for it
}

// schedule queues w, or has itself called again when the time has come.
func (h *hub) schedule(w *watchedList) {
	if w.wanted == none || w.queued || w.reading || len(w.watchers) == 0 {
		return
	}
	if wait := time.Until(w.earliest()); wait > 0 {
		if w.timer == nil {
			w.timer = time.AfterFunc(wait, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.schedule(w)
			})
		} else {
			w.timer.Reset(wait)
		}
		return
	}
	w.queued = true
	h.queue.push(w)
	h.startReader()
}

// startReader starts a goroutine that reads what is queued, unless there are enough. While readings fail, one alone tries.
func (h *hub) startReader() {
	most := maxReaders
	if h.queue.failures > 0 {
		most = 1
	}
	if h.queue.readers < most && len(h.queue.urgent)+len(h.queue.later) > 0 {
		h.queue.readers++
		go h.readQueued()
	}
}

// readQueued reads until nothing is queued.
func (h *hub) readQueued() {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.queue.readers-- }()
	for h.queue.failures == 0 || h.queue.readers == 1 {
		w := h.queue.pop()
		if w == nil {
			return
		}
		w.queued = false
		h.mu.Unlock()
		h.reread(w)
		h.mu.Lock()
		if n := h.queue.failures; n > 0 {
			h.mu.Unlock()
			time.Sleep(min(firstRetry<<min(n-1, 10), lastRetry))
			h.mu.Lock()
		} else {
			h.startReader() // others may have given up
		}
	}
}
