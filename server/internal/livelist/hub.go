package livelist

import (
	"context"
	"sync"
	"time"

	"worldevents/models"
)

const (
	// askInterval is the time without a write after which the hub asks, for writes by hand or with a lost notification.
	askInterval = time.Second
	// askRest is the least time between two questions.
	askRest = 5 * time.Millisecond
	// worldRest is the least time between two looks at the lists of a world.
	worldRest = 250 * time.Millisecond
)

type hub struct {
	// ask is WorldsSince of a models.Store.
	ask func(context.Context, models.Moment) (models.ChangedWorlds, error)

	mu       sync.Mutex
	worlds   map[string]*world // with watchers, now or in the last second
	changed  map[string]*world // of these, those with watchers to wake
	tidied   time.Time         // the last time
	watching int               // watchers
	written  time.Time         // the first write of this instance since the last question, or zero
	running  bool              // a goroutine asks
	stopped  bool
	stop     chan struct{} // closed with stopped
	wake     chan struct{} // has room for one
}

// world is a watched one. A watcher with news leaves, and most come back at once.
type world struct {
	watchers map[*watcher]struct{}
	woken    time.Time // the last time
	written  time.Time // the first known write of this instance since then
}

type watcher struct {
	world string
	// changed has room for one: the time of the write of this instance, or zero for other changes.
	changed chan time.Time
}

func newHub(ask func(context.Context, models.Moment) (models.ChangedWorlds, error)) *hub {
	return &hub{ask: ask, worlds: make(map[string]*world), changed: make(map[string]*world), stop: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// hear notes a write, on the writer's goroutine.
func (h *hub) hear(own bool) {
	h.mu.Lock()
	if own && h.written.IsZero() {
		h.written = time.Now()
	}
	h.mu.Unlock()
	h.signal()
}

func (h *hub) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// register adds a watcher until forget. It returns nil once the instance stops.
func (h *hub) register(name string) *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	v := &watcher{name, make(chan time.Time, 1)}
	w := h.worlds[name]
	if w == nil {
		w = &world{watchers: make(map[*watcher]struct{})}
		h.worlds[name] = w
	}
	w.watchers[v] = struct{}{}
	h.watching++
	if !h.running {
		h.running = true
		go h.run()
	}
	return v
}

func (h *hub) forget(v *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.worlds[v.world].watchers, v)
	h.watching--
}

// end ends all watches for good.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.stopped {
		h.stopped = true
		close(h.stop)
	}
}

// run asks, from the first watcher until the stop. It skips questions without watchers: the next one covers the time since the last.
func (h *hub) run() {
	var since models.Moment
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-h.wake:
		case <-timer.C:
		}
		timer.Reset(askInterval)
		h.mu.Lock()
		idle, written := h.watching == 0, h.written
		h.written = time.Time{}
		h.mu.Unlock()
		if idle {
			h.deliver(models.ChangedWorlds{}, time.Time{}, false)
			continue
		}
		answer, err := h.ask(context.Background(), since)
		if err == nil {
			since = answer.Now
		} else {
			answer = models.ChangedWorlds{} // asked again, about the same and more
		}
		if rest := h.deliver(answer, written, err != nil); rest < askInterval {
			timer.Reset(rest)
		}
		time.Sleep(askRest)
	}
}

// deliver wakes the watchers of changed worlds, at most once per worldRest, and returns the time until the next wake. After a failed
// question it keeps the time of the write for the next one.
func (h *hub) deliver(answer models.ChangedWorlds, written time.Time, failed bool) (rest time.Duration) {
	rest = askInterval
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if failed && !written.IsZero() {
		h.written = written
	}
	h.tidy(now)
	note := func(name string, w *world) {
		h.changed[name] = w
		if w.written.IsZero() {
			w.written = written
		}
	}
	for _, name := range answer.Names {
		if w := h.worlds[name]; w != nil {
			note(name, w)
		}
	}
	if answer.All {
		for name, w := range h.worlds {
			note(name, w)
		}
	}
	for name, w := range h.changed {
		if left := worldRest - now.Sub(w.woken); left > 0 {
			rest = min(rest, left)
			continue
		}
		for v := range w.watchers {
			select {
			case v.changed <- w.written:
			default: // it has not looked yet since it was woken
			}
		}
		w.written, w.woken = time.Time{}, now
		delete(h.changed, name)
	}
	return rest
}

// tidy drops worlds without watchers after their rest, once a second: most watchers come back.
func (h *hub) tidy(now time.Time) {
	if now.Sub(h.tidied) < askInterval {
		return
	}
	h.tidied = now
	for name, w := range h.worlds {
		if len(w.watchers) == 0 && now.Sub(w.woken) >= worldRest {
			delete(h.worlds, name)
			delete(h.changed, name)
		}
	}
}
