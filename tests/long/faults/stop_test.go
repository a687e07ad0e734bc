package faults

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
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
	server := servicetest.NewPostgresServer(t)
	f := newFleet(t, server)
	load := f.load(20)
	for range 2 {
		for i := range f.programs {
			f.replace(i, f.programs[i])
			load.goOn(200)
		}
	}
	load.finish()
	f.dropsClaims()
	for _, res := range load.failed {
		t.Errorf("lost: %v", res)
	}
	t.Logf("4 restarts under %d requests, %d lost", load.sent.Load(), len(load.failed))
	if t.Failed() {
		t.Logf("HAProxy:\n%s", f.log)
	}
}
