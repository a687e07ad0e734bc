package faults

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// fleet is two instances behind a proxy of deploy/.
type fleet struct {
	*servicetest.Front
	t         *testing.T
	programs  []*servicetest.Program
	processes []*servicetest.Process
	// http2 makes clients speak HTTP/2.
	http2 bool
	// keys makes creates of load have an Idempotency-Key.
	keys bool
	// proxyLog is the log of the requests that the proxy has passed on.
	proxyLog func() string
	// waitUp waits until the proxy sends requests to both instances.
	waitUp func()
}

// newInstances starts two instances without a proxy.
func newInstances(t *testing.T, server *servicetest.PostgresServer, env ...string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for range 2 {
		program := servicetest.NewProgram(t, append([]string{"DATABASE_URL=" + server.URL(), "TRUSTED_PROXIES=127.0.0.0/8"}, env...)...)
		f.programs, f.processes = append(f.programs, program), append(f.processes, program.ServeReady())
	}
	return f
}

// newFleet starts two instances behind HAProxy.
func newFleet(t *testing.T, server *servicetest.PostgresServer, env ...string) *fleet {
	t.Helper()
	f := newInstances(t, server, env...)
	f.Front = servicetest.StartHAProxy(t, f.programs[0], f.programs[1])
	f.proxyLog, f.waitUp = f.Log.String, f.waitFound
	f.waitUp()
	return f
}

// insecure trusts every certificate. A transport changes what it is given.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// states returns the state of each server of the backend, by name.
func (f *fleet) states() map[string]string {
	text := servicetest.NewBrowser("http://"+f.Status, plain).Do("GET", "/;csv", "").Body
	states := make(map[string]string)
	for _, line := range strings.Split(text, "\n") {
		if fields := strings.Split(line, ","); len(fields) > 17 && fields[0] == "worldevents" && fields[1] != "BACKEND" {
			states[fields[1]] = fields[17]
		}
	}
	return states
}

// waitFound waits until HAProxy has found both instances, in both roles.
func (f *fleet) waitFound() {
	f.t.Helper()
	servicetest.Eventually(f.t, "HAProxy has found both", func() bool {
		up := 0
		for _, state := range f.states() {
			if state == "UP" {
				up++
			}
		}
		return up == 4
	})
}

// dropsClaims fails the test if the proxy passes on what a client says about its own address, which instances would believe,
// or logs less than the id of the response, or a query.
func (f *fleet) dropsClaims() {
	f.t.Helper()
	const claimed, query = "192.0.2.66", "code-of-a-sign-in"
	transport := newTransport(1)
	transport.TLSClientConfig = insecure()
	defer transport.CloseIdleConnections()
	res := servicetest.NewBrowser(f.URL, transport).Do("GET", "/api/auth/session?"+query, "", servicetest.Header("X-Forwarded-For", claimed))
	id := res.Header.Get("X-Request-Id")
	logs := func() string { return f.processes[0].Log.String() + f.processes[1].Log.String() }
	for _, log := range []func() string{logs, f.proxyLog} {
		servicetest.Eventually(f.t, "the request is in a log", func() bool { return id != "" && strings.Contains(log(), id) })
		for _, text := range []string{claimed, query} {
			servicetest.Lacks(f.t, log(), text)
		}
	}
}

// redirects fails the test if the proxy redirects more than questions for its own host from plain HTTP.
func (f *fleet) redirects() {
	f.t.Helper()
	for _, test := range []struct {
		method, host string
		status       int
	}{
		{"GET", "events.example.org", 308}, {"HEAD", "Events.example.org:80", 308}, {"GET", "evil.example", 421}, {"GET", f.Plain, 421},
		{"POST", "events.example.org", 405}, {"OPTIONS", "events.example.org", 405}, {"POST", "evil.example", 421},
	} {
		host := func(r *http.Request) { r.Host = test.host }
		res := servicetest.NewBrowser("http://"+f.Plain, plain).Do(test.method, "/docs?x", "", host)
		location := ""
		if test.status == 308 {
			location = "https://events.example.org/docs?x"
		}
		if res.Status != test.status || res.Header.Get("Location") != location {
			f.t.Errorf("%s %s: %v %s", test.method, test.host, res, res.Header.Get("Location"))
		}
	}
}

// replace stops an instance and starts program in its place.
func (f *fleet) replace(i int, program *servicetest.Program) {
	f.t.Helper()
	f.processes[i].Stop()
	f.start(i, program)
	f.waitUp()
}

// start starts an instance and waits until it is ready.
func (f *fleet) start(i int, program *servicetest.Program) {
	f.t.Helper()
	f.programs[i], f.processes[i] = program, program.ServeReady()
}

// fleetLoad sends requests of every kind without a pause.
type fleetLoad struct {
	t      *testing.T
	users  []*user
	other  *user // who sends nothing by himself
	sent   atomic.Int64
	mu     sync.Mutex
	failed []response
	end    func()
}

func (f *fleet) load(n int) *fleetLoad {
	f.t.Helper()
	transport := newTransport(n)
	transport.TLSClientConfig, transport.ForceAttemptHTTP2 = insecure(), f.http2
	f.t.Cleanup(transport.CloseIdleConnections)
	l := &fleetLoad{t: f.t, other: signIn(f.t, transport, f.URL, "other")}
	for i := range n {
		l.users = append(l.users, signIn(f.t, transport, f.URL, fmt.Sprintf("user%d", i)))
	}
	l.end = working(n, func(i int) {
		u := l.users[i]
		var options []servicetest.RequestOption
		if f.keys {
			options = append(options, servicetest.Header("Idempotency-Key", rand.Text()))
		}
		for _, res := range []response{
			u.Do("GET", "/api/auth/refresh", ""),
			u.Do("GET", "/api/auth/session", ""),
			u.Do("POST", "/api/event/w", `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`, options...),
			u.Do("GET", "/api/event/w?limit=1", ""),
		} {
			if l.sent.Add(1); res.Status != 200 {
				l.mu.Lock()
				l.failed = append(l.failed, res)
				l.mu.Unlock()
			}
		}
	})
	f.t.Cleanup(l.end)
	l.goOn(100)
	return l
}

// goOn waits for so many requests.
func (l *fleetLoad) goOn(n int64) {
	l.t.Helper()
	sent := l.sent.Load()
	servicetest.Eventually(l.t, "requests go on", func() bool { return l.sent.Load() > sent+n })
}

// losesNothing ends the load, and fails the test for each request that has failed.
func (l *fleetLoad) losesNothing() {
	l.t.Helper()
	l.end()
	for _, res := range l.failed {
		l.t.Errorf("lost: %v", res)
	}
	l.t.Logf("%d requests, %d lost", l.sent.Load(), len(l.failed))
}

// When the database crashes no instance is ready. Every response is JSON all the same, of the service and not of the
// proxy: 503 with Retry-After or 500, in time, and pages of other origins can read it. Sessions are verified meanwhile.
func TestNobodyIsReady(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	const origin = "https://app.example.org"
	f := newFleet(t, server, "DB_TIMEOUT=2s", "ALLOWED_ORIGINS="+origin)
	load := f.load(20)
	machine := newYardstick(t, load.other)
	server.Kill()
	servicetest.Eventually(t, "HAProxy has noticed", func() bool {
		states := f.states()
		return states["one"] == "DOWN" && states["two"] == "DOWN" && states["one-backup"] == "UP" && states["two-backup"] == "UP"
	})
	load.goOn(400)
	if res := load.other.Do("GET", "/api/event/w", "", servicetest.Origin(origin)); res.Status < 500 || res.Header.Get("Access-Control-Allow-Origin") != origin {
		t.Errorf("from another origin: %v %v", res, res.Header)
	}
	server.Start()
	f.waitUp()
	load.goOn(200)
	load.end()
	machine.stop()
	statuses, others := make(map[int]int), 0
	for _, res := range load.failed {
		statuses[res.Status]++
		machine.within(t, 3*time.Second, res.Took, res)
		if !res.IsJSON() || res.Status == 503 && res.Header.Get("Retry-After") == "" {
			if others++; others <= 5 {
				t.Errorf("not a response of the service: %v", res)
			}
		}
	}
	t.Logf("%d requests, failed by status: %v, of which not JSON: %d", load.sent.Load(), statuses, others)
}
