package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// client sends requests to one address.
type client struct {
	url  string
	http *http.Client
}

func newClient(t *testing.T, address string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: many}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{address, &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// response is what a request came to.
type response struct {
	sent, received time.Time
	status         int // 0 without a response
	header         http.Header
	body           string
	err            error
}

// String shows what went wrong.
func (res response) String() string {
	return fmt.Sprintf("%d %.300s %v after %v", res.status, res.body, res.err, res.received.Sub(res.sent).Round(time.Millisecond))
}

// cookies are those that the response sets, as a request sends them.
func (res response) cookies() string {
	var pairs []string
	for _, cookie := range (&http.Response{Header: res.header}).Cookies() {
		pairs = append(pairs, cookie.Name+"="+cookie.Value)
	}
	return strings.Join(pairs, "; ")
}

// send sends a request with these cookies.
func (c *client) send(method, path, mediaType, body, cookies string) response {
	r, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		return response{err: err}
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	if cookies != "" {
		r.Header.Set("Cookie", cookies)
	}
	sent := time.Now()
	res, err := c.http.Do(r)
	if err != nil {
		return response{sent: sent, received: time.Now(), err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return response{sent, time.Now(), res.StatusCode, res.Header, string(text), err}
}

// signIn signs a user in, which makes the user; its response has status 303.
func (c *client) signIn(name string) response {
	return c.send("POST", "/sign-in", "application/x-www-form-urlencoded", url.Values{"username": {name}}.Encode(), "")
}

func (c *client) create(world, cookies string) response {
	return c.send("POST", "/api/event/"+world, "application/json", `{"name":"x","description":"","scheduledAt":"2030-01-02T03:04:05Z"}`, cookies)
}

func (c *client) refresh(cookies string) response {
	return c.send("GET", "/api/auth/refresh", "", "", cookies)
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
	client      *client

	t       *testing.T
	stopped chan struct{}
	all     sync.WaitGroup

	// events are the ids of those that were acknowledged, once the load has been judged.
	events []string

	mu       sync.Mutex
	creates  []response
	sessions map[string]string // by the cookies that an acknowledged refresh has set, the user
}

// startLoad begins to write to an address, with so many creates at once at most; every event is in the world.
func startLoad(t *testing.T, name, address, world string, atOnce int) *load {
	t.Helper()
	l := &load{name: name, world: world, client: newClient(t, address), t: t, stopped: make(chan struct{}), sessions: make(map[string]string)}
	res := l.client.signIn(world + " creator at " + name)
	if res.status != 303 {
		t.Fatalf("sign in: %v", res)
	}
	cookies := res.cookies()
	l.all.Go(func() { l.create(cookies, atOnce) })
	l.all.Go(l.refresh)
	t.Cleanup(l.stop) // the test may fail before it stops
	return l
}

// create creates an event after the other, and waits for no response unless there are enough at once.
func (l *load) create(cookies string, atOnce int) {
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
				l.note(l.client.create(l.world, cookies))
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
	case res.status != 200 && res.status != 500 && res.status != 503:
		l.t.Errorf("%s: %v", l.name, res)
	case res.header.Get("Content-Type") != "application/json" || !json.Valid([]byte(res.body)):
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
		if res := l.client.signIn(user); res.status == 303 {
			if res = l.client.refresh(res.cookies()); res.status == 200 {
				l.mu.Lock()
				l.sessions[res.cookies()] = user
				l.mu.Unlock()
			}
		}
	}
}

// stop ends the load and waits for the responses.
func (l *load) stop() {
	l.mu.Lock()
	select {
	case <-l.stopped:
	default:
		close(l.stopped)
	}
	l.mu.Unlock()
	l.all.Wait()
}

// acknowledged is how many creates sent after a time have succeeded.
func (l *load) acknowledged(since time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, res := range l.creates {
		if res.status == 200 && res.sent.After(since) {
			n++
		}
	}
	return n
}

// figures say what a drill did to a load.
type figures struct {
	// outage is the longest time without a success, and first the time from the promotion to the first success.
	outage, first time.Duration
	// failed are the creates without success, and outside those of them that neither the fault nor the promotion explains: on a
	// machine that others use, too, some take longer than DB_TIMEOUT.
	failed, outside int
	// created and refreshed were acknowledged, lost are those of both that are not there.
	created, refreshed, lost int
}

func (f figures) String() string {
	return fmt.Sprintf("outage %v, promotion to first success %v, creates failed %d, of them outside the outage %d, acknowledged %d creates and %d refreshes, lost %d",
		f.outage.Round(time.Millisecond), f.first.Round(time.Millisecond), f.failed, f.outside, f.created, f.refreshed, f.lost)
}

// grace is how long after a promotion a create may still fail: some go to connections that were opened before.
const grace = 5 * time.Second

// judge stops the load and holds what was acknowledged against the events that are there, and against the sessions that work at
// address.
func (l *load) judge(fault, promoted time.Time, there map[string]bool, address string) (f figures) {
	l.t.Helper()
	l.stop()
	slices.SortFunc(l.creates, func(a, b response) int { return a.received.Compare(b.received) })
	var last time.Time
	for _, res := range l.creates {
		if res.status != 200 {
			f.failed++
			if res.received.Before(fault) || res.sent.After(promoted.Add(grace)) {
				f.outside++
				l.t.Logf("%s: sent %v after the promotion: %v", l.name, res.sent.Sub(promoted).Round(time.Millisecond), res)
			}
			continue
		}
		if !last.IsZero() {
			f.outage = max(f.outage, res.received.Sub(last))
		}
		if last = res.received; f.first == 0 && last.After(promoted) {
			f.first = last.Sub(promoted)
		}
		id := res.header.Get("Event-Id")
		l.events = append(l.events, id)
		if !there[id] {
			f.lost++
			l.t.Errorf("%s: event %s was acknowledged %v after the promotion and is lost", l.name, id, last.Sub(promoted).Round(time.Millisecond))
		}
	}
	f.created = len(l.events)
	c := newClient(l.t, address)
	for cookies, user := range l.sessions {
		if res := c.refresh(cookies); res.status != 200 {
			f.lost++
			l.t.Errorf("%s: a refresh of %s was acknowledged and is lost: %v", l.name, user, res)
		}
	}
	f.refreshed = len(l.sessions)
	return f
}
