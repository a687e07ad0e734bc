//go:build faults

package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// SIGTERM with a hundred requests in flight, twenty times: readiness ends first, each request gets its response, and the
// process ends by itself, well and in time.
func TestStopBreaksNoRequest(t *testing.T) {
	const rounds, inFlight, timeout = 20, 100, 5 * time.Second
	program := servicetest.NewProgram(t, "SHUTDOWN_TIMEOUT="+timeout.String())
	var slowest time.Duration
	for range rounds {
		p := program.ServeReady()
		alice := signIn(t, http.DefaultTransport, p.URL, "alice")
		world := fmt.Sprintf("w%d", time.Now().UnixNano())
		requests := make([]*halfRequest, inFlight)
		for i := range requests {
			requests[i] = beginRequest(t, p, alice, world)
		}
		begin := time.Now()
		p.Signal(syscall.SIGTERM)
		servicetest.Eventually(t, timeout/5, "readiness says 503, before new connections are refused", func() bool {
			return p.Admin("/readyz") == 503
		})
		if status, _ := p.Do("GET", "/api/event/"+world, "", ""); status != 401 {
			t.Errorf("a request right behind the end of readiness: %d", status)
		}
		for _, r := range requests {
			r.finish(t)
		}
		if status := p.Wait(timeout + time.Second); status != 0 {
			t.Fatalf("exit status %d", status)
		}
		slowest = max(slowest, time.Since(begin))
		again := program.ServeReady()
		if n := len(alice.on(again).list(t, world).Events); n != inFlight {
			t.Fatalf("%d of %d events are there", n, inFlight)
		}
		again.Signal(syscall.SIGINT)
		if status := again.Wait(timeout); status != 0 {
			t.Errorf("exit status after SIGINT %d", status)
		}
	}
	if slowest > timeout {
		t.Errorf("a stop took %v", slowest)
	}
	t.Logf("%d stops with %d requests in flight, none broken, the slowest took %v of %v", rounds, inFlight, slowest.Round(time.Millisecond), timeout)
}

// on is the same browser at another instance.
func (u *user) on(p *servicetest.Process) *user {
	other := *u
	other.url = p.URL
	return &other
}

// halfRequest is a create whose body has not been sent whole.
type halfRequest struct {
	conn net.Conn
	rest string
}

func beginRequest(t *testing.T, p *servicetest.Process, u *user, world string) *halfRequest {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	const body = `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`
	fmt.Fprintf(conn, "POST /api/event/%s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		world, u.cookies["token"], len(body), body[:10])
	return &halfRequest{conn, body[10:]}
}

func (r *halfRequest) finish(t *testing.T) {
	t.Helper()
	fmt.Fprint(r.conn, r.rest)
	r.conn.SetDeadline(time.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(r.conn), nil)
	if err != nil {
		t.Errorf("broken: %v", err)
		return
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("in flight: %d", res.StatusCode)
	}
}

// Two instances behind HAProxy are replaced one after the other, again and again, under load. HAProxy resends
// nothing, as it must not: a resent refresh would spend its token twice.
func TestRollingRestartLosesNoRequest(t *testing.T) {
	haproxy := need(t, "haproxy")
	server := servicetest.NewPostgresServer(t)
	var programs []*servicetest.Program
	var processes []*servicetest.Process
	backends := ""
	for i := range 2 {
		program := servicetest.NewProgram(t, "DATABASE_URL="+server.URL(), "SHUTDOWN_TIMEOUT=5s")
		programs, processes = append(programs, program), append(processes, program.ServeReady())
		_, adminPort, _ := net.SplitHostPort(program.Getenv("ADMIN_ADDR"))
		backends += fmt.Sprintf("  server s%d %s check port %s inter 100ms fall 1 rise 1\n", i, program.Getenv("LISTEN_ADDR"), adminPort)
	}
	address := fmt.Sprintf("127.0.0.1:%d", servicetest.FreePort())
	status := fmt.Sprintf("127.0.0.1:%d", servicetest.FreePort())
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	os.WriteFile(config, []byte(`
defaults
  mode http
  retries 0
  timeout connect 2s
  timeout check 1s
  timeout client 30s
  timeout server 30s
frontend public
  bind `+address+`
  default_backend instances
frontend status
  bind `+status+`
  stats enable
  stats uri /
backend instances
  option httpchk GET /readyz
`+backends), 0o600)
	proxy := exec.Command(haproxy, "-db", "-f", config)
	proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := new(servicetest.Log)
	proxy.Stdout, proxy.Stderr = log, log
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proxy.Process.Kill()
		proxy.Wait()
	})
	// An instance is replaced when the proxy has noticed that the one before is back.
	bothAreUp := func() bool {
		res, err := http.Get("http://" + status + "/;csv")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return strings.Count(string(text), ",UP,") == 3 // two servers and the backend
	}
	servicetest.Eventually(t, 5*time.Second, "HAProxy has found both", bothAreUp)

	const n = 20
	transport := newTransport(n)
	defer transport.CloseIdleConnections()
	users := make([]*user, n)
	for i := range users {
		users[i] = signIn(t, transport, "http://"+address, fmt.Sprintf("user%d", i))
	}
	var sent, lost atomic.Int64
	stop := make(chan struct{})
	wait := workers(n, stop, func(i int) {
		for _, res := range []response{
			users[i].do("GET", "/api/auth/refresh", ""),
			users[i].do("GET", "/api/auth/session", ""),
			users[i].do("POST", "/api/event/w", `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`),
			users[i].do("GET", "/api/event/w?limit=1", ""),
		} {
			if sent.Add(1); res.status != 200 && lost.Add(1) <= 5 {
				t.Errorf("lost: %v", res)
			}
		}
	})
	for range 3 {
		for i, program := range programs {
			processes[i].Signal(syscall.SIGTERM)
			if status := processes[i].Wait(6 * time.Second); status != 0 {
				t.Errorf("exit status %d", status)
			}
			processes[i] = program.ServeReady()
			servicetest.Eventually(t, 5*time.Second, "HAProxy has found both", bothAreUp)
			up := sent.Load()
			servicetest.Eventually(t, 5*time.Second, "requests go on", func() bool { return sent.Load() > up+200 })
		}
	}
	close(stop)
	wait()
	t.Logf("6 restarts under %d requests, %d lost", sent.Load(), lost.Load())
	if t.Failed() {
		t.Logf("HAProxy:\n%s", log)
	}
}
