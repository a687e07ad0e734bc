package eventlist

import (
	"slices"
	"sync"
	"time"

	"worldevents/models"
)

const (
	// lingering is how long a list is kept for which nobody waits any more: after a change all of them come back.
	lingering = 2 * time.Second
	// shares is how many users fill the index of events: none has more than their share of it.
	shares = 8
)

// hub holds the requests that wait for news of a list. It knows the events of these lists, and reads a list once for all
// who wait for it when a hint says that it may have changed.
//
// Nothing is lost between a reading and the waiting that follows: hints are numbered, a reading takes the number before
// its statement begins, and the list is read again if one of its hints has come since, and only then.
type hub struct {
	lists    *Lists
	hears    func() bool // whether other instances' hints arrive
	sessions sessionChecker
	counts   WaitCounts
	hints    hintQueue

	mu       sync.Mutex // of all below, watched lists and watchers included
	watched  map[readKey]*watchedList
	index    hintIndex
	later    int // lists that stand in the line of nobody, to be read
	failures int // of readings, in a row
	watching int // requests that wait
	stopped  bool
	// unwatched is closed when the last list is dropped.
	unwatched chan struct{}
}

// watchedList is a list that requests wait for.
type watchedList struct {
	key  readKey
	span models.ListOptions
	// What the last reading found.
	etag, link string
	hints      []models.Hint // of its world and events
	since      uint64        // the hints that came before it
	owner      models.ID     // whose share its events count in

	watchers []*watcher
	users    map[models.ID]int // of watchers
	idle     *time.Timer       // ends lingering
	readState
}

// watcher is a request that waits for news of a list.
type watcher struct {
	caller models.Caller
	tags   []string // of If-None-Match, without W/
	list   *watchedList
	index  int // in list.watchers; -1 once it does not wait any more
	// round is the reading of the list during which the watcher came, which can be too old for it.
	round uint64
	// verified means that a reading which began after the request found the list unchanged and the session active.
	verified bool
	news     chan news
}

// news is why a watcher waits no longer.
type news struct {
	// read is the changed list, to be released; nil if there is none.
	read *sharedRead
	// err is models.ErrSignedOut for a session that is not active.
	err error
	// unheld means that the list has no ETag any more.
	unheld bool
	// stopped means that the instance stops.
	stopped bool
	// etag and link are those of the list, if that is unchanged and the session was active when it was read; else empty.
	etag, link string
	// hinted is when the first write of this instance was acknowledged that the change is due to, if known.
	hinted time.Time
}

func newHub(l *Lists) *hub {
	h := &hub{
		lists: l, hears: l.store.Hears, sessions: sessionChecker{lists: l},
		watched: make(map[readKey]*watchedList), index: newHintIndex(),
	}
	h.counts.waiting = func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.watching
	}
	return h
}

// enter takes a place for one more request of user that waits, until remove or exit. It reports whether there was one, and
// whether the instance stops.
func (h *hub) enter(user models.ID) (ok, stopped bool) {
	h.mu.Lock()
	stopped = h.stopped
	h.mu.Unlock()
	return !stopped && h.lists.held.waiting.Try(user, 1), stopped
}

// exit gives the place of a request back that waits no longer, or did not come to wait.
func (h *hub) exit(user models.ID) { h.lists.held.waiting.Release(user, 1) }

// join has a request wait for a list that others wait for already, if it is the one that the client has. The next
// reading verifies that. It returns nil if there is no such list.
func (h *hub) join(key readKey, caller models.Caller, tags []string) *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watched[key]
	if w == nil || h.stopped || !slices.Contains(tags, opaqueTag(w.etag)) {
		return nil
	}
	v := h.add(w, caller, tags)
	h.want(w, arrival)
	return v
}

// register has a request wait for a list that was just read for it, and which the client has. It returns nil if there is
// no room for the list's events.
func (h *hub) register(key readKey, span models.ListOptions, r *sharedRead, caller models.Caller, tags []string) *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	w := h.watched[key]
	if w == nil {
		if !h.index.hasRoom(caller.UserID, len(r.hints)) {
			return nil
		}
		w = &watchedList{key: key.clone(), span: span, owner: caller.UserID, users: make(map[models.ID]int)}
		w.span.WorldID = w.key.world
		w.begin(none, r.begun)
		h.watched[w.key] = w
		h.update(w, r)
		if len(h.watched) == 1 {
			h.unwatched = make(chan struct{})
			go h.sweepAll(h.unwatched)
		}
	}
	v := h.add(w, caller, tags)
	v.verified = w.etag == r.etag
	if !v.verified {
		h.want(w, notified) // two readings side by side: a third one decides
	}
	h.schedule(w)
	return v
}

func (h *hub) add(w *watchedList, caller models.Caller, tags []string) *watcher {
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	v := &watcher{caller: caller, tags: tags, list: w, index: len(w.watchers), round: w.round, news: make(chan news, 1)}
	w.watchers = append(w.watchers, v)
	w.users[caller.UserID]++
	h.watching++
	return v
}

// leave ends the waiting of v, and returns what is known of the list; woken means that there was news already.
func (h *hub) leave(v *watcher) (n news, woken bool) {
	h.mu.Lock()
	if v.index < 0 {
		h.mu.Unlock()
		return <-v.news, true // when its turn has come
	}
	defer h.mu.Unlock()
	h.remove(v)
	return v.unchanged(), false
}

// unchanged is the news that there is none.
func (v *watcher) unchanged() news {
	if !v.verified || !v.has(v.list.etag) {
		return news{}
	}
	return news{etag: v.list.etag, link: v.list.link}
}

// has reports whether the client has the list with this ETag.
func (v *watcher) has(etag string) bool { return slices.Contains(v.tags, opaqueTag(etag)) }

// wake ends the waiting of v with news, which it gets when its turn has come.
func (h *hub) wake(v *watcher, n news) {
	h.remove(v)
	h.answer(v.caller, v.news, n)
}

// answer sends n to a request of caller when its turn to respond has come. The channel must have room. Until then the request is
// not even woken: the scheduler would run thousands of goroutines that are ready before it came to the goroutine of any other
// request.
func (h *hub) answer(caller models.Caller, to chan<- news, n news) {
	h.lists.held.answering.Await(func(models.ID) { to <- n }, caller.UserID)
}

// remove takes v from its list, and gives its place back. Thousands that are woken together need not queue for mu, in
// front of those who write, to do so themselves.
func (h *hub) remove(v *watcher) {
	w, last := v.list, len(v.list.watchers)-1
	w.watchers[v.index] = w.watchers[last]
	w.watchers[v.index].index = v.index
	w.watchers[last] = nil
	w.watchers = w.watchers[:last]
	v.index = -1
	h.watching--
	h.exit(v.caller.UserID)
	if w.users[v.caller.UserID]--; w.users[v.caller.UserID] == 0 {
		delete(w.users, v.caller.UserID)
	}
	if last == 0 {
		w.watchers, w.users = nil, make(map[models.ID]int) // they may have been large
		w.idle = time.AfterFunc(lingering, func() { h.forget(w) })
	}
}

// forget drops a list that nobody has waited for for a while.
func (h *hub) forget(w *watchedList) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(w.watchers) > 0 || h.watched[w.key] != w {
		return
	}
	if w.reading { // its end would add to the index
		w.idle = time.AfterFunc(lingering, func() { h.forget(w) })
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	delete(h.watched, w.key)
	h.index.remove(w)
	if len(h.watched) == 0 {
		close(h.unwatched)
	}
}

// stop ends all waiting since the instance stops, and lets nobody wait any more.
func (h *hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for _, w := range h.watched {
		for len(w.watchers) > 0 {
			v := w.watchers[len(w.watchers)-1]
			n := v.unchanged()
			n.stopped = true
			h.wake(v, n)
		}
	}
}
