package eventlist

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/models"
)

// hintQueue is the hints that are yet to be noted.
type hintQueue struct {
	count   atomic.Uint64 // of all hints so far
	mu      sync.Mutex
	queue   []queuedHint
	running bool // a goroutine notes them
}

type queuedHint struct {
	models.Hint
	why cause
	at  time.Time
}

// hinted takes hints from the store. It runs on the goroutine of whoever wrote, who must not wait for the hub: that may be
// looking at all who wait for a list.
func (h *hub) hinted(source models.Source, hints ...models.Hint) {
	why := notified
	if source == models.OwnWrite {
		why = ownWrite
	}
	q, now := &h.hints, time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, hint := range hints {
		q.queue = append(q.queue, queuedHint{hint, why, now})
		q.count.Add(1)
	}
	if !q.running {
		q.running = true
		go h.noteHints()
	}
}

// noteHints has the lists read that hints concern, until there are no more.
func (h *hub) noteHints() {
	for {
		h.hints.mu.Lock()
		all := h.hints.queue
		h.hints.queue = nil
		h.hints.running = len(all) > 0
		h.hints.mu.Unlock()
		if len(all) == 0 {
			return
		}
		h.mu.Lock()
		for _, hint := range all {
			for _, w := range h.index.note(hint.Hint) {
				if h.index.noted <= w.since { // the reading came after the write
					continue
				}
				if hint.why == ownWrite && w.hinted.IsZero() {
					w.hinted = hint.at
				}
				h.want(w, hint.why)
			}
		}
		h.mu.Unlock()
	}
}

// reread reads w for those who wait.
func (h *hub) reread(w *watchedList) {
	h.mu.Lock()
	why, hinted := w.wanted, w.hinted
	if len(w.watchers) == 0 {
		h.mu.Unlock()
		return // it stays wanted
	}
	w.wanted, w.hinted, w.reading = none, time.Time{}, true
	w.begin(why, time.Now())
	// A list that is known to be unchanged is not read: all must have it.
	reader := Caller{watches: true, hintsOf: w.etag}
	if !slices.ContainsFunc(w.watchers, func(v *watcher) bool { return !v.has(w.etag) }) {
		reader.IfNoneMatch = []string{w.etag}
	}
	h.mu.Unlock()
	h.counts.readings[why].Add(1)

	r, err := h.lists.reads.doTwice(context.Background(), w.key, reader, h.lists.reader(w.span, w.key))
	var out map[models.Caller]bool
	if err == nil && r.etag != "" {
		out, err = h.lists.signedOut(context.Background(), h.unverified(w, r.etag))
		if err != nil {
			r.release()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w.reading, w.failed = false, err != nil
	if err != nil {
		h.failures++
		if w.hinted.IsZero() {
			w.hinted = hinted
		}
		w.wanted = max(w.wanted, why)
		h.schedule(w)
		return
	}
	defer r.release()
	h.failures = 0
	h.deliver(w, r, out, hinted)
	h.schedule(w)
}

// unverified returns whose session is to be looked up before they get a list that now has this ETag, or are known to have it, each
// once.
func (h *hub) unverified(w *watchedList, etag string) (callers []models.Caller) {
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

// deliver wakes those who have another list than r, and those who are not active. Who came while r was read waits for the
// next reading: r may be too old for them.
func (h *hub) deliver(w *watchedList, r *sharedRead, signedOut map[models.Caller]bool, hinted time.Time) {
	held := r.etag != "" && h.index.hasRoom(w.owner, len(r.hints)-len(w.hints))
	if held {
		h.update(w, r)
	}
	for i := len(w.watchers) - 1; i >= 0; i-- { // waking one moves the last to its place
		v := w.watchers[i]
		same := v.has(r.etag)
		switch {
		case !held:
			h.wake(v, news{unheld: true})
		case v.round == w.round:
			if !v.has(w.etag) {
				h.want(w, notified)
			} else if !v.verified {
				h.want(w, arrival)
			}
		case same && v.verified:
		case signedOut[v.caller]:
			h.wake(v, news{err: models.ErrSignedOut})
		case same:
			v.verified = true
		default:
			r.refs.Add(1)
			h.wake(v, news{read: r, hinted: hinted})
		}
	}
}

// update makes w what r found, which must have an ETag. It wants another reading if w has changed since r began.
func (h *hub) update(w *watchedList, r *sharedRead) {
	w.since = max(w.since, r.since)
	if w.etag != r.etag {
		h.index.remove(w)
		w.etag, w.link, w.hints = r.etag, r.link, r.hints
		h.index.add(w)
	}
	if h.index.hintedSince(w, r.since) {
		h.want(w, notified)
	}
}
