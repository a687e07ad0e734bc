package faults

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// fleet is two instances behind a proxy, which runs with its file in deploy/.
type fleet struct {
	t         *testing.T
	programs  []*servicetest.Program
	processes []*servicetest.Process
	url, stat string // stat is host:port
	log       *servicetest.Log
	// http2 makes clients speak HTTP/2.
	http2 bool
	// keys makes creates of load have an Idempotency-Key.
	keys bool
	// plain is where the proxy listens without TLS, and proxyLog is the log of what it has passed on.
	plain    string
	proxyLog func() string
	// waitUp waits until the proxy sends requests to both instances.
	waitUp func()
}

// newInstances starts two instances without a proxy.
func newInstances(t *testing.T, server *servicetest.PostgresServer, env ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, log: new(servicetest.Log), waitUp: func() {}}
	for range 2 {
		program := servicetest.NewProgram(t, append([]string{"DATABASE_URL=" + server.URL(), "TRUSTED_PROXIES=127.0.0.0/8"}, env...)...)
		f.programs, f.processes = append(f.programs, program), append(f.processes, program.ServeReady())
	}
	return f
}

// newFleet starts two instances behind HAProxy.
func newFleet(t *testing.T, server *servicetest.PostgresServer, env ...string) *fleet {
	t.Helper()
	haproxy := servicetest.Tool(t, "haproxy")
	f := newInstances(t, server, env...)
	public, dir := servicetest.FreeAddress(t), t.TempDir()
	f.url, f.stat, f.plain, f.proxyLog = "https://"+public, servicetest.FreeAddress(t), servicetest.FreeAddress(t), f.log.String
	settings := f.shipped("haproxy.cfg",
		"bind :80\n", "bind "+f.plain+"\n", "bind :443 ", "bind "+public+" ", "/etc/haproxy/worldevents.pem", filepath.Join(dir, "pem"))
	certificate := servicetest.NewCertificate(t, time.Hour, time.Hour)
	config := filepath.Join(dir, "haproxy.cfg")
	for path, text := range map[string]string{
		filepath.Join(dir, "pem"): string(certificate.Cert) + string(certificate.Key),
		config:                    settings + "\nfrontend status\n  bind " + f.stat + "\n  stats enable\n  stats uri /\n",
	} {
		servicetest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	f.startProxy(haproxy, "-db", "-f", config)
	f.waitUp = f.waitFound
	f.waitUp()
	return f
}

// shipped returns a file of deploy/ with the addresses of the instances and those of replace, pairs of old and new.
func (f *fleet) shipped(name string, replace ...string) string {
	f.t.Helper()
	text := servicetest.Must(os.ReadFile(filepath.Join(servicetest.Root(f.t), "deploy", name)))(f.t)
	lines := strings.SplitAfter(string(text), "\n")
	for i, program := range f.programs {
		documented, found := fmt.Sprintf("10.0.0.%d:8080", i+1), false
		_, adminPort, _ := net.SplitHostPort(program.Getenv("ADMIN_ADDR"))
		for n, line := range lines {
			if strings.Contains(line, documented) {
				lines[n] = strings.NewReplacer(documented, program.Getenv("LISTEN_ADDR"), " port 9090 ", " port "+adminPort+" ").Replace(line)
				found = true
			}
		}
		if !found {
			f.t.Fatalf("no %s in %s", documented, name)
		}
	}
	settings := strings.Join(lines, "")
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(settings, replace[i]) {
			f.t.Fatalf("no %s in %s", replace[i], name)
		}
		settings = strings.ReplaceAll(settings, replace[i], replace[i+1])
	}
	return settings
}

// insecure trusts every certificate. A transport changes what it is given.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// startProxy starts a proxy, which is killed when the test ends.
func (f *fleet) startProxy(program string, args ...string) *os.Process {
	f.t.Helper()
	proxy := exec.Command(program, args...)
	proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	proxy.Stdout, proxy.Stderr = f.log, f.log
	ended := servicetest.Must(servicetest.StartCommand(proxy))(f.t)
	f.t.Cleanup(func() {
		proxy.Process.Kill()
		<-ended
	})
	return proxy.Process
}

// states returns the state of each server of the backend, by name.
func (f *fleet) states() map[string]string {
	res, err := http.Get("http://" + f.stat + "/;csv")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	states := make(map[string]string)
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Split(line, ","); len(fields) > 17 && fields[0] == "worldevents" && fields[1] != "BACKEND" {
			states[fields[1]] = fields[17]
		}
	}
	return states
}

// waitFound waits until HAProxy has found both instances, in both roles.
func (f *fleet) waitFound() {
	f.t.Helper()
	servicetest.Eventually(f.t, 20*time.Second, "HAProxy has found both", func() bool {
		up := 0
		for _, state := range f.states() {
			if state == "UP" {
				up++
			}
		}
		return up == 4
	})
}

// dropsClaims fails the test if the proxy passes on what a client says about its own address or the request's id, which
// instances would believe, or logs less than the id of the response, or a query.
func (f *fleet) dropsClaims() {
	f.t.Helper()
	const claimed, claimedID, query = "192.0.2.66", "claimed-id", "code-of-a-sign-in"
	transport := newTransport(1)
	transport.TLSClientConfig = insecure()
	defer transport.CloseIdleConnections()
	res := servicetest.NewBrowser(f.url, transport).Do("GET", "/api/auth/session?"+query, "",
		servicetest.Header("X-Forwarded-For", claimed), servicetest.Header("X-Request-Id", claimedID))
	id := res.Header.Get("X-Request-Id")
	logs := func() string { return f.processes[0].Log.String() + f.processes[1].Log.String() }
	for _, log := range []func() string{logs, f.proxyLog} {
		servicetest.Eventually(f.t, 20*time.Second, "the request is in a log", func() bool { return id != "" && strings.Contains(log(), id) })
		for _, text := range []string{claimed, claimedID, query} {
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
		{"GET", "events.example.org", 308}, {"HEAD", "Events.example.org:80", 308}, {"GET", "evil.example", 421}, {"GET", f.plain, 421},
		{"POST", "events.example.org", 405}, {"OPTIONS", "events.example.org", 405}, {"POST", "evil.example", 421},
	} {
		req, _ := http.NewRequest(test.method, "http://"+f.plain+"/docs?x", nil)
		req.Host = test.host
		res, err := plain.RoundTrip(req)
		if err != nil {
			f.t.Error(err)
			continue
		}
		res.Body.Close()
		location := ""
		if test.status == 308 {
			location = "https://events.example.org/docs?x"
		}
		if res.StatusCode != test.status || res.Header.Get("Location") != location {
			f.t.Errorf("%s %s: %d %s", test.method, test.host, res.StatusCode, res.Header.Get("Location"))
		}
	}
}

// replace stops an instance and starts program in its place.
func (f *fleet) replace(i int, program *servicetest.Program) {
	f.t.Helper()
	f.stop(i)
	f.start(i, program)
	f.waitUp()
}

func (f *fleet) stop(i int) {
	f.t.Helper()
	f.processes[i].Stop()
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
	l := &fleetLoad{t: f.t, other: signIn(f.t, transport, f.url, "other")}
	for i := range n {
		l.users = append(l.users, signIn(f.t, transport, f.url, fmt.Sprintf("user%d", i)))
	}
	stop := working(n, func(i int) {
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
	l.end = stop
	f.t.Cleanup(l.end)
	l.goOn(100)
	return l
}

// goOn waits for so many requests.
func (l *fleetLoad) goOn(n int64) {
	l.t.Helper()
	sent := l.sent.Load()
	servicetest.Eventually(l.t, 20*time.Second, "requests go on", func() bool { return l.sent.Load() > sent+n })
}

func (l *fleetLoad) finish() { l.end() }

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
	servicetest.Eventually(t, 20*time.Second, "HAProxy has noticed", func() bool {
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
	load.finish()
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
