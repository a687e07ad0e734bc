package eventlist

import (
	"time"

	"worldevents/models"
)

const (
	// A list is read for those who wait maxRate times a second at most. After a hint it is read at once, but no
	// sooner than hintRest after the last time that a hint was the cause. For newcomers alone, whose list and session are yet to be
	// verified, it is read no sooner than arrivalRest after the last reading: thousands who come back from an instance that
	// stops take seconds to arrive, and hints and sweeps find a change meanwhile.
	maxRate     = 4
	hintRest    = 250 * time.Millisecond
	arrivalRest = 3 * time.Second
	// After a reading that failed its turn goes on for firstRetry, and twice as long after each further one, up to lastRetry.
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
	failed  bool  // the last reading
	queued  cause // for which it stands in a line, or in two
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

// want has w read, once it may be and somebody waits for it.
func (h *hub) want(w *watchedList, why cause) {
	w.wanted = max(w.wanted, why)
	h.schedule(w) // also if it was wanted before: perhaps nobody waited for it
}

// schedule queues w, or has itself called again when the time has come.
func (h *hub) schedule(w *watchedList) {
	queued := w.queued != none && (w.queued >= notified || w.wanted < notified)
	if w.wanted == none || queued || w.reading || len(w.watchers) == 0 {
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
	h.queue(w)
}

// maxTurns is how many users' turns a list may be read in.
const maxTurns = 16

// queue has w read in the next turn of somebody who waits for it: so those who wait for many lists, which are all written, take
// nothing from others. What no write has caused is read in the turns of nobody, which are those of one user more.
func (h *hub) queue(w *watchedList) {
	turns := []models.ID{nobody}
	if w.wanted >= notified {
		turns = turns[:0]
		for user := range w.users {
			if turns = append(turns, user); len(turns) == maxTurns {
				break
			}
		}
	} else {
		h.later++
	}
	w.queued = w.wanted
	h.lists.held.rereads.Await(func(user models.ID) { go h.rereadInTurn(w, user) }, turns...)
}

// rereadInTurn reads w if it is still wanted, and then ends the turn of user.
func (h *hub) rereadInTurn(w *watchedList, user models.ID) {
	defer h.lists.held.rereads.Release(user, 1)
	h.mu.Lock()
	if user == nobody {
		h.later--
	}
	queued := w.queued
	w.queued = none
	h.mu.Unlock()
	if queued == none { // it was read in the turn of another line
		return
	}
	h.reread(w)
	h.mu.Lock()
	failures := h.failures
	h.mu.Unlock()
	if failures > 0 {
		time.Sleep(min(firstRetry<<min(failures-1, 10), lastRetry))
	}
}
