//go:build faults

package faults

import (
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

// fleet is two instances behind HAProxy, with the settings that OPERATING.md has.
type fleet struct {
	t             *testing.T
	programs      []*servicetest.Program
	processes     []*servicetest.Process
	address, stat string // host:port
	log           *servicetest.Log
}

func newFleet(t *testing.T, server *servicetest.PostgresServer, env ...string) *fleet {
	t.Helper()
	haproxy := servicetest.Tool(t, "haproxy")
	listen := func() string { return fmt.Sprintf("127.0.0.1:%d", servicetest.FreePort()) }
	f := &fleet{t: t, address: listen(), stat: listen(), log: new(servicetest.Log)}
	settings := proxySettings(t)
	for i := range 2 {
		program := servicetest.NewProgram(t, append([]string{"DATABASE_URL=" + server.URL(), "SHUTDOWN_TIMEOUT=5s"}, env...)...)
		f.programs, f.processes = append(f.programs, program), append(f.processes, program.ServeReady())
		_, port, _ := net.SplitHostPort(program.Getenv("LISTEN_ADDR"))
		_, adminPort, _ := net.SplitHostPort(program.Getenv("ADMIN_ADDR"))
		// The names and ports of the documented settings become those of the instance.
		host := fmt.Sprintf("10.0.0.%d", i+1)
		lines := strings.Split(settings, "\n")
		for n, line := range lines {
			if strings.Contains(line, host+":8080") {
				lines[n] = strings.NewReplacer(host+":8080", "127.0.0.1:"+port, "9090", adminPort, "inter 1s", "inter 100ms").Replace(line)
			}
		}
		settings = strings.Join(lines, "\n")
	}
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	os.WriteFile(config, []byte(`
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
frontend public
  bind `+f.address+`
  default_backend worldevents
frontend status
  bind `+f.stat+`
  stats enable
  stats uri /
`+settings), 0o600)
	proxy := exec.Command(haproxy, "-db", "-f", config)
	proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	proxy.Stdout, proxy.Stderr = f.log, f.log
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proxy.Process.Kill()
		proxy.Wait()
	})
	f.waitUp()
	return f
}

// proxySettings returns the backend that OPERATING.md has for HAProxy.
func proxySettings(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(servicetest.Root(t), "OPERATING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, settings, found := strings.Cut(string(text), "```haproxy\n")
	settings, _, ended := strings.Cut(settings, "```")
	if !found || !ended || strings.Count(settings, "10.0.0.") != 6 {
		t.Fatal("no settings of HAProxy for two instances in OPERATING.md")
	}
	return settings
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

// waitUp waits until HAProxy has found both instances, in both roles.
func (f *fleet) waitUp() {
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

// replace stops an instance and starts program in its place.
func (f *fleet) replace(i int, program *servicetest.Program) {
	f.t.Helper()
	f.stop(i)
	f.start(i, program)
	f.waitUp()
}

func (f *fleet) stop(i int) {
	f.t.Helper()
	f.processes[i].Signal(syscall.SIGTERM)
	if status := f.processes[i].Wait(20 * time.Second); status != 0 {
		f.t.Errorf("exit status %d", status)
	}
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
	sent   atomic.Int64
	mu     sync.Mutex
	failed []response
	end    func()
}

func (f *fleet) load(n int) *fleetLoad {
	f.t.Helper()
	transport := newTransport(n)
	f.t.Cleanup(transport.CloseIdleConnections)
	l := &fleetLoad{t: f.t}
	for i := range n {
		l.users = append(l.users, signIn(f.t, transport, "http://"+f.address, fmt.Sprintf("user%d", i)))
	}
	stop := make(chan struct{})
	wait := workers(n, stop, func(i int) {
		u := l.users[i]
		for _, res := range []response{
			u.do("GET", "/api/auth/refresh", ""),
			u.do("GET", "/api/auth/session", ""),
			u.do("POST", "/api/event/w", `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`),
			u.do("GET", "/api/event/w?limit=1", ""),
		} {
			if l.sent.Add(1); res.status != 200 {
				l.mu.Lock()
				l.failed = append(l.failed, res)
				l.mu.Unlock()
			}
		}
	})
	l.end = sync.OnceFunc(func() {
		close(stop)
		wait()
	})
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
	server := servicetest.NewPostgresServer(t)
	const origin = "https://app.example.org"
	f := newFleet(t, server, "DB_TIMEOUT=2s", "ALLOWED_ORIGINS="+origin)
	load := f.load(20)
	server.Kill()
	servicetest.Eventually(t, 20*time.Second, "HAProxy has noticed", func() bool {
		states := f.states()
		return states["one"] == "DOWN" && states["two"] == "DOWN" && states["one-backup"] == "UP" && states["two-backup"] == "UP"
	})
	load.goOn(400)
	r, _ := http.NewRequest("GET", "http://"+f.address+"/api/event/w", nil)
	r.Header.Set("Origin", origin)
	if res := load.users[0].clone().send(r); res.status < 500 || res.header.Get("Access-Control-Allow-Origin") != origin {
		t.Errorf("from another origin: %v %v", res, res.header)
	}
	if res := load.users[0].do("GET", "/api/auth/session", ""); res.status != 200 {
		t.Errorf("a session is verified meanwhile: %v", res)
	}
	server.Start()
	f.waitUp()
	load.goOn(200)
	load.finish()
	statuses, others := make(map[int]int), 0
	for _, res := range load.failed {
		statuses[res.status]++
		if !res.isJSON() || res.took > 4*time.Second || res.status == 503 && res.header.Get("Retry-After") == "" {
			if others++; others <= 5 {
				t.Errorf("not a response of the service: %v", res)
			}
		}
	}
	t.Logf("%d requests, failed by status: %v, of which not JSON: %d", load.sent.Load(), statuses, others)
}
