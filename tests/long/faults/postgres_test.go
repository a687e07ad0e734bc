package faults

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// While PostgreSQL is away, in whatever way, every request gets a response within three seconds, a list within eleven, as JSON,
// and never as if the session were bad. Liveness stays; readiness follows; all is well again by itself.
func TestPostgresFaults(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	again := func(proxy *servicetest.Proxy) func() { return func() { proxy.Down(); proxy.Up() } }
	for _, fault := range []struct {
		name string
		// begin breaks something and returns what ends it.
		begin func(proxy *servicetest.Proxy) (end func())
		// away means that the database cannot be reached at all meanwhile.
		away  bool
		lasts time.Duration
	}{
		{"killed", func(*servicetest.Proxy) func() { server.Kill(); return server.Start }, true, 4 * time.Second},
		{"restarted", func(*servicetest.Proxy) func() { server.Restart(); return func() {} }, false, time.Second},
		{"backends terminated", func(*servicetest.Proxy) func() {
			for range 5 {
				server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'worldevents'")
				time.Sleep(200 * time.Millisecond) // between blows, not for anything to happen
			}
			return func() {}
		}, false, 0},
		{"paused", func(*servicetest.Proxy) func() { server.Pause(); return server.Resume }, true, 4 * time.Second},
		{"black hole", func(proxy *servicetest.Proxy) func() { proxy.Silence(); return again(proxy) }, true, 4 * time.Second},
		{"slow", func(proxy *servicetest.Proxy) func() {
			proxy.Slow(100*time.Millisecond, 700*time.Millisecond)
			return func() { proxy.Slow(0, 0) }
		}, false, 4 * time.Second},
		{"connections reset", func(proxy *servicetest.Proxy) func() { proxy.Reset(); return again(proxy) }, true, 4 * time.Second},
		{"connections refused", func(proxy *servicetest.Proxy) func() { proxy.Down(); return proxy.Up }, true, 4 * time.Second},
	} {
		t.Run(fault.name, func(t *testing.T) {
			proxy := servicetest.NewProxy(t, server.Addr)
			address := strings.Replace(server.URL(), server.Addr, proxy.Addr, 1)
			p := servicetest.NewProgram(t, "DATABASE_URL="+address, "DB_TIMEOUT=2s").ServeReady()
			watch := watchFault(t, p)
			mend := fault.begin(proxy)
			var once sync.Once // and no OnceFunc, which panics after a failure
			end := func() { once.Do(mend) }
			defer end() // a fault that outlived its test would fail those behind it
			begun := time.Now()
			if fault.away {
				p.Readiness(503, servicetest.Soon)
				t.Logf("readiness 503 after %v", time.Since(begun).Round(time.Millisecond))
			}
			time.Sleep(max(0, fault.lasts-time.Since(begun))) // for requests to pile up
			end()
			ended := time.Now()
			p.Readiness(200, servicetest.Soon)
			ready := time.Since(ended)
			watch.other.writesAgain(t)
			written := time.Since(ended)
			watch.machine.within(t, 5*time.Second, written, "the first write")
			t.Logf("ready %v, a write %v after the end of it", ready.Round(time.Millisecond), written.Round(time.Millisecond))
			watch.finish()
		})
	}
}

// faultWatch sends every kind of request, from more users than the pool has connections, and judges the responses.
type faultWatch struct {
	t         *testing.T
	p         *servicetest.Process
	transport *http.Transport
	world     string
	users     []*user
	ids       []string // the event of each user
	other     *user    // who sends nothing by himself

	stop func() // ends all requests and waits for them

	machine  *yardstick
	mu       sync.Mutex
	statuses map[int]int
	slowest  map[time.Duration]response // by what was promised
}

func watchFault(t *testing.T, p *servicetest.Process) *faultWatch {
	t.Helper()
	const n = 60
	w := &faultWatch{t: t, p: p, transport: newTransport(n + 2), world: t.Name(), statuses: make(map[int]int), slowest: make(map[time.Duration]response)}
	t.Cleanup(w.transport.CloseIdleConnections)
	w.other = w.signIn("other")
	w.machine = newYardstick(t, w.other)
	for i := range n {
		u := w.signIn(fmt.Sprintf("user%d", i))
		id, res := u.create(w.world, "there before")
		if id == "" {
			t.Fatal(res)
		}
		w.users, w.ids = append(w.users, u), append(w.ids, id)
	}
	rounds := make([]int, n)
	stopUsers := working(n, func(i int) {
		rounds[i]++
		w.send(i, rounds[i])
	})
	stopProbes := working(1, func(int) {
		servicetest.Is(t, p.Admin("/livez"), 200, "liveness")
		time.Sleep(50 * time.Millisecond)
	})
	w.stop = sync.OnceFunc(func() {
		stopUsers()
		stopProbes()
		w.machine.stop()
	})
	t.Cleanup(w.stop) // the test may fail before it finishes
	return w
}

func (w *faultWatch) signIn(name string) *user {
	w.t.Helper()
	return signIn(w.t, w.transport, w.p.URL, name)
}

func (w *faultWatch) list(query string) string {
	return "/api/event/" + url.PathEscape(w.world) + query
}

// send sends the request that is user i's turn in a round.
func (w *faultWatch) send(i, round int) {
	u, id := w.users[i], w.ids[i]
	switch round % 6 {
	case 0:
		w.judge("session", u.Do("GET", "/api/auth/session", ""))
	case 1:
		_, res := u.create(w.world, "x")
		w.judge("create", res)
	case 2:
		w.judge("join", u.Do("POST", "/api/event/join/"+id, ""))
	case 3:
		w.judge("leave", u.Do("DELETE", "/api/event/"+id, ""))
	case 4:
		w.judge("list", u.Do("GET", w.list(fmt.Sprintf("?limit=20&from=20%02d-01-01T00:00:00Z", i%20)), ""))
	case 5:
		if u.Cookies["refreshToken"] == "" {
			return
		}
		res := u.Do("GET", "/api/auth/refresh", "")
		w.judge("refresh", res)
		if res.Status != 200 { // it may have been spent or not: no more to be said about this session
			delete(u.Cookies, "refreshToken")
		}
	}
}

// judge counts a response, which must be JSON, and never a refusal.
func (w *faultWatch) judge(what string, res response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses[res.Status]++
	promised := 3 * time.Second // DB_TIMEOUT and a second
	if what == "list" {
		promised = 11 * time.Second
	}
	if res.Took > w.slowest[promised].Took {
		w.slowest[promised] = res
	}
	switch {
	case res.Status != 200 && res.Status != 500 && res.Status != 503:
		w.t.Errorf("%s: %v", what, res)
	case !res.IsJSON():
		w.t.Errorf("%s: no JSON: %v", what, res)
	}
}

// finish ends the requests and looks at what is left: something must have succeeded, every user can go on, and what was
// acknowledged before is there.
func (w *faultWatch) finish() {
	w.t.Helper()
	w.stop()
	for promised, slowest := range w.slowest {
		w.machine.within(w.t, promised, slowest.Took, slowest)
		w.t.Logf("of those with %v the slowest took %v", promised, slowest.Took.Round(time.Millisecond))
	}
	w.t.Logf("responses by status: %v", w.statuses)
	if w.statuses[200] == 0 {
		w.t.Error("nothing ever succeeded")
	}
	for i := range w.users {
		fresh := w.signIn(fmt.Sprintf("user%d", i))
		fresh.Do("GET", "/api/auth/refresh", "").Is(w.t, 200)
	}
	if text := w.users[0].Do("GET", w.list(""), "").Body; strings.Count(text, "there before") != len(w.users) {
		w.t.Errorf("of %d events made before %d are left", len(w.users), strings.Count(text, "there before"))
	}
}
