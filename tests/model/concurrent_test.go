package model

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"worldevents/tests/servicetest"
)

// roundRequests are how many requests a world sees: its history must stay small enough to be judged with each response.
const roundRequests = 300

// clients each are a user of their own, whose joins and leaves come one after the other.
const clients = 5

// TestConcurrent has everybody do everything at once.
func TestConcurrent(t *testing.T) {
	both(t, func(t *testing.T, db *servicetest.Database) {
		s := newSite(t, db)
		repeat(t, 1, concurrentShare, func() {
			r := &round{site: s, state: newState(), seed: rand.Uint64()}
			r.run(t)
		})
	})
}

// round is all clients in two worlds at once.
type round struct {
	*site
	*state
	seed     uint64
	requests atomic.Int64
	found    atomic.Pointer[finding]
	lists    map[string]string // the body and Link of each ETag
}

func (r *round) run(t *testing.T) {
	if err := r.wipe(); err != nil {
		t.Fatal(err)
	}
	r.lists = make(map[string]string)
	for i := range 2 {
		r.addWorld(fmt.Sprintf("world %d %d", r.serial(), i))
	}
	watchers, stop, err := r.watchAll()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var all sync.WaitGroup
	for i := range clients {
		u, err := r.signIn(r.state, fmt.Sprintf("user %d", r.serial()))
		if err != nil {
			t.Fatal(err)
		}
		for reads := range 1 + i%2 { // every second user has a second browser, which only reads
			c := &client{round: r, user: u, reads: reads == 1, draw: rand.New(rand.NewPCG(r.seed, uint64(2*i+reads))).IntN}
			all.Go(c.run)
		}
	}
	o := &operator{round: r, draw: rand.New(rand.NewPCG(r.seed, 1<<32)).IntN}
	all.Go(o.run)
	if r.breaker != nil {
		all.Go(func() { r.breaker.run(r) })
	}
	all.Wait()
	if r.found.Load() == nil {
		r.settled()
		r.watched(watchers)
	}
	if f := r.found.Load(); f != nil {
		t.Errorf("seed %d: %s", r.seed, f.text)
		for _, w := range r.worlds {
			t.Logf("%s:\n%s", w.name, strings.Join(w.log[max(0, len(w.log)-60):], "\n"))
		}
	}
}

// settled asks each instance for the worlds once nothing is under way.
func (r *round) settled() {
	for instance := range 2 {
		for _, w := range r.worlds {
			u, err := r.signIn(r.state, fmt.Sprintf("user %d", r.serial()))
			r.keep(err)
			c := &client{round: r, user: u, draw: rand.New(rand.NewPCG(0, 0)).IntN}
			c.list(w, wholeWorld(), instance)
		}
	}
}

// going reports whether requests are left, and nothing has been found.
func (r *round) going() bool { return r.found.Load() == nil && r.requests.Load() < roundRequests }

// keep keeps the first finding.
func (r *round) keep(err error) {
	if err != nil {
		r.found.CompareAndSwap(nil, findingOf(err))
	}
}

// note writes the history of a world. The caller holds the mutex.
func (w *world) note(who string, call int64, format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%12.6f to %12.6f %s: %s", seconds(call), seconds(now()), who, fmt.Sprintf(format, args...)))
}

func seconds(moment int64) float64 { return float64(moment-begun.UnixNano()) / 1e9 }

// draw chooses a number below n. Where rapid draws, what is found shrinks.
type draw func(n int) int

// some draws one of what there is, the zero value when there is nothing.
func some[T any](draw draw, all []T) (one T) {
	if len(all) > 0 {
		one = all[draw(len(all))]
	}
	return one
}

// instant is one of few, so that many events share one. Some are the first and the last that can be.
func (d draw) instant() int64 {
	if d(20) == 19 {
		return some(d, []int64{0, 253402300799999})
	}
	return noon + int64(d(21)*1000+d(3))
}

// query draws a shape of list.
func (d draw) query() query {
	q := wholeWorld()
	if d(2) == 1 {
		q.most = some(d, []int{1, 2, 3, 5, 10, 100, 127, 128, 129, 256, 300, 900, 999, 1000})
		q.limit = fmt.Sprint(q.most)
	}
	if d(3) == 2 {
		q.low = d.instant()
		q.from = instant(q.low)
	}
	if d(3) == 2 {
		q.high = d.instant()
		q.to = instant(q.high)
	}
	return q
}
