package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

type response = servicetest.Result

func received(res response) time.Time { return res.Sent.Add(res.Took) }

func newBrowser(t *testing.T, address string) *servicetest.Browser {
	transport := &http.Transport{MaxIdleConnsPerHost: many}
	t.Cleanup(transport.CloseIdleConnections)
	return servicetest.NewBrowser(address, transport)
}

const (
	// pace is the time between two creates, whatever became of those before.
	pace = 20 * time.Millisecond
	// many is how many creates wait for a response at most: more than there are connections.
	many = 200
)

// load writes to one address: it creates events, and it signs users in and refreshes their session once.
type load struct {
	name, world string
	nobody      *servicetest.Browser // who is not signed in

	t       *testing.T
	stopped chan struct{}
	all     sync.WaitGroup
	stop    func() // ends the load and waits for the responses

	// events are the ids of those that were acknowledged, once the load has been judged.
	events []string

	mu       sync.Mutex
	creates  []response
	sessions map[*servicetest.Browser]string // after an acknowledged refresh, and the user
}

// startLoad begins to write to an address, with so many creates at once at most; every event is in the world.
func startLoad(t *testing.T, name, address, world string, atOnce int) *load {
	t.Helper()
	l := &load{name: name, world: world, nobody: newBrowser(t, address), t: t, stopped: make(chan struct{}), sessions: make(map[*servicetest.Browser]string)}
	creator := l.nobody.Clone()
	creator.SignIn(world+" creator at "+name).Is(t, 303)
	l.stop = sync.OnceFunc(func() {
		close(l.stopped)
		l.all.Wait()
	})
	l.all.Go(func() { l.create(creator, atOnce) })
	l.all.Go(l.refresh)
	t.Cleanup(l.stop) // the test may fail before it stops
	return l
}

// create creates an event after the other, and waits for no response unless there are enough at once.
func (l *load) create(creator *servicetest.Browser, atOnce int) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	places := make(chan struct{}, atOnce)
	for {
		select {
		case <-l.stopped:
			return
		case <-tick.C:
		}
		select {
		case places <- struct{}{}:
			l.all.Go(func() {
				defer func() { <-places }()
				l.note(creator.Do("POST", "/api/event/"+l.world, `{"name":"x","description":"","scheduledAt":"2030-01-02T03:04:05Z"}`))
			})
		default:
		}
	}
}

// note keeps the response to a create, which may fail for want of a database alone.
func (l *load) note(res response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.creates = append(l.creates, res)
	switch {
	case res.Status != 200 && res.Status != 500 && res.Status != 503:
		l.t.Errorf("%s: %v", l.name, res)
	case !res.IsJSON():
		l.t.Errorf("%s: no JSON: %v", l.name, res)
	}
}

// refresh signs a user in and refreshes the session, again and again.
func (l *load) refresh() {
	for n := 0; ; n++ {
		select {
		case <-l.stopped:
			return
		case <-time.After(2 * pace):
		}
		user := fmt.Sprintf("%s %d at %s", l.world, n, l.name)
		browser := l.nobody.Clone()
		if browser.SignIn(user).Status == 303 && browser.Do("GET", "/api/auth/refresh", "").Status == 200 {
			l.mu.Lock()
			l.sessions[browser] = user
			l.mu.Unlock()
		}
	}
}

// acknowledged is how many creates sent after a time have succeeded.
func (l *load) acknowledged(since time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, res := range l.creates {
		if res.Status == 200 && res.Sent.After(since) {
			n++
		}
	}
	return n
}

// figures say what a drill did to a load.
type figures struct {
	// outage is the longest time without a success, and first the time from the promotion to the first success.
	outage, first time.Duration
	// usual is the longest time between two successes before the fault: it says how busy the machine is.
	usual time.Duration
	// failed are the creates without success, and outside those of them that neither the fault nor the promotion explains: on a
	// machine that others use, too, some take longer than DB_TIMEOUT.
	failed, outside int
	// created and refreshed were acknowledged, lost are those of both that are not there.
	created, refreshed, lost int
}

func (f figures) String() string {
	return fmt.Sprintf("outage %v, before the fault %v, promotion to first success %v, creates failed %d, of them outside the outage %d, acknowledged %d creates and %d refreshes, lost %d",
		f.outage.Round(time.Millisecond), f.usual.Round(time.Millisecond), f.first.Round(time.Millisecond), f.failed, f.outside, f.created, f.refreshed, f.lost)
}

// grace is how long after a promotion a create may still fail: some go to connections that were opened before.
const grace = 5 * time.Second

// judge stops the load and holds what was acknowledged against the events that are there, and against the sessions that work at
// address.
func (l *load) judge(fault, promoted time.Time, there map[string]bool, address string) (f figures) {
	l.t.Helper()
	l.stop()
	slices.SortFunc(l.creates, func(a, b response) int { return received(a).Compare(received(b)) })
	var last time.Time
	for _, res := range l.creates {
		if res.Status != 200 {
			f.failed++
			if received(res).Before(fault) || res.Sent.After(promoted.Add(grace)) {
				f.outside++
				l.t.Logf("%s: sent %v after the promotion: %v", l.name, res.Sent.Sub(promoted).Round(time.Millisecond), res)
			}
			continue
		}
		if !last.IsZero() {
			f.outage = max(f.outage, received(res).Sub(last))
			if received(res).Before(fault) {
				f.usual = f.outage
			}
		}
		if last = received(res); f.first == 0 && last.After(promoted) {
			f.first = last.Sub(promoted)
		}
		id := res.Header.Get("Event-Id")
		l.events = append(l.events, id)
		if !there[id] {
			f.lost++
			l.t.Errorf("%s: event %s was acknowledged %v after the promotion and is lost", l.name, id, last.Sub(promoted).Round(time.Millisecond))
		}
	}
	f.created = len(l.events)
	for browser, user := range l.sessions {
		browser.URL = address
		if res := browser.Do("GET", "/api/auth/refresh", ""); res.Status != 200 {
			f.lost++
			l.t.Errorf("%s: a refresh of %s was acknowledged and is lost: %v", l.name, user, res)
		}
	}
	f.refreshed = len(l.sessions)
	return f
}
