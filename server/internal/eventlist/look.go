package eventlist

import (
	"context"
	"slices"
	"time"

	"worldevents/models"
)

const (
	// A list is read for those who wait maxRate times a second at most. After a hint it is read at once, but no
	// sooner than hintRest after the last time that a hint was the cause; for newcomers alone, whose list and session are yet to be
	// verified, no sooner than arrivalRest after the last reading.
	maxRate     = 4
	hintRest    = 250 * time.Millisecond
	arrivalRest = time.Second
	// maxLooks is how many lists are read at once for those who wait.
	maxLooks = 4
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

// lookState says when a list that is waited for was read, and when it will be.
type lookState struct {
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
func (s *lookState) begin(why cause, now time.Time) {
	copy(s.begun[1:], s.begun[:])
	s.begun[0] = now
	if why >= notified {
		s.byHint = now
	}
	s.round++
}

// earliest returns when the list may be read.
func (s *lookState) earliest() time.Time {
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

// lookQueue is the lists to read, the urgent ones first.
type lookQueue struct {
	urgent, later []*watchedList
	looking       int // goroutines that read
	failures      int // of readings, in a row
}

func (q *lookQueue) push(w *watchedList) {
	if w.wanted >= notified {
		q.urgent = append(q.urgent, w)
	} else {
		q.later = append(q.later, w)
	}
}

func (q *lookQueue) pop() *watchedList {
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
	h.startLooking()
}

// startLooking starts a goroutine that reads what is queued, unless there are enough. While readings fail, one alone tries.
func (h *hub) startLooking() {
	most := maxLooks
	if h.queue.failures > 0 {
		most = 1
	}
	if h.queue.looking < most && len(h.queue.urgent)+len(h.queue.later) > 0 {
		h.queue.looking++
		go h.lookAll()
	}
}

// lookAll reads until nothing is queued.
func (h *hub) lookAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.queue.looking-- }()
	for h.queue.failures == 0 || h.queue.looking == 1 {
		w := h.queue.pop()
		if w == nil {
			return
		}
		w.queued = false
		h.mu.Unlock()
		h.look(w)
		h.mu.Lock()
		if n := h.queue.failures; n > 0 {
			h.mu.Unlock()
			time.Sleep(min(firstRetry<<min(n-1, 10), lastRetry))
			h.mu.Lock()
		} else {
			h.startLooking() // others may have given up
		}
	}
}

// look reads w for those who wait.
func (h *hub) look(w *watchedList) {
	h.mu.Lock()
	why, hinted := w.wanted, w.hinted
	if len(w.watchers) == 0 {
		h.mu.Unlock()
		return // it stays wanted
	}
	w.wanted, w.hinted, w.reading = none, time.Time{}, true
	w.begin(why, time.Now())
	// A list that only its fingerprint tells to be unchanged has no text: all must have it.
	reader := Caller{watches: true, hintsOf: w.etag}
	if !slices.ContainsFunc(w.watchers, func(v *watcher) bool { return !v.has(w.etag) }) {
		reader.IfNoneMatch = []string{w.etag}
	}
	h.mu.Unlock()
	h.counts.readings[why].Add(1)

	r, err := h.lists.reads.doTwice(context.Background(), w.key, reader, h.lists.reader(w.span, w.key))
	var active map[models.Caller]bool
	if err == nil && r.etag != "" {
		active, err = h.lists.activeCallers(context.Background(), h.toVerify(w, r.etag))
		if err != nil {
			r.release()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w.reading, w.failed = false, err != nil
	if err != nil {
		h.queue.failures++
		if w.hinted.IsZero() {
			w.hinted = hinted
		}
		w.wanted = max(w.wanted, why)
		h.schedule(w)
		return
	}
	defer r.release()
	h.queue.failures = 0
	h.spread(w, r, active, hinted)
	h.schedule(w)
}

// toVerify returns who is about to have news of a list that now has this ETag, or to be told that there is none for the
// first time, each once.
func (h *hub) toVerify(w *watchedList, etag string) (callers []models.Caller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := make(map[models.Caller]bool)
	for _, v := range w.watchers {
		if v.round < w.round && !seen[v.caller] && (!v.verified || !v.has(etag)) {
			seen[v.caller] = true
			callers = append(callers, v.caller)
		}
	}
	return callers
}

// spread tells r to those who have another list, and signs off those who are not active. Who came while r was read waits
// for the next reading: r may be too old for them.
func (h *hub) spread(w *watchedList, r *sharedRead, active map[models.Caller]bool, hinted time.Time) {
	held := r.etag != "" && h.hasRoom(w.owner, len(r.hints)-len(w.hints))
	if held {
		h.update(w, r)
	}
	for i := len(w.watchers) - 1; i >= 0; i-- { // telling one moves the last to its place
		v := w.watchers[i]
		same := v.has(r.etag)
		switch {
		case !held:
			h.tell(v, news{unheld: true})
		case v.round == w.round:
			if !v.verified || !v.has(w.etag) {
				h.want(w, arrival)
			}
		case same && v.verified:
		case !active[v.caller]:
			h.tell(v, news{err: models.ErrSignedOut})
		case same:
			v.verified = true
		default:
			r.refs.Add(1)
			h.tell(v, news{read: r, hinted: hinted})
		}
	}
}
