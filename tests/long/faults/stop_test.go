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

// SIGTERM with a hundred requests in flight: readiness ends first, each request gets its response, whether it ends while new ones are
// taken or after that, and the process ends by itself, well and in time.
func TestStopBreaksNoRequest(t *testing.T) {
	t.Parallel()
	const rounds, inFlight, timeout = 3, 100, 20 * time.Second
	program := servicetest.NewProgram(t, "SHUTDOWN_TIMEOUT="+timeout.String())
	for range rounds {
		p := program.ServeReady()
		alice := signIn(t, http.DefaultTransport, p.URL, "alice")
		world := fmt.Sprintf("w%d", time.Now().UnixNano())
		requests := make([]*halfRequest, inFlight)
		for i := range requests {
			requests[i] = beginRequest(t, p, alice, world)
		}
		p.Signal(syscall.SIGTERM)
		p.Readiness(503, timeout/5) // as long are new ones taken
		p.Is(401, "GET", "/api/event/"+world, "", "")
		finish(t, requests[:inFlight/2])
		servicetest.Eventually(t, timeout, "new connections are refused", func() bool {
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		finish(t, requests[inFlight/2:])
		if status := p.Wait(timeout); status != 0 {
			t.Fatalf("exit status %d: %s", status, p.Log)
		}
		servicetest.Lacks(t, p.Log.String(), "still in flight")
		again := program.ServeReady()
		if n := len(alice.on(again).list(t, world).Events); n != inFlight {
			t.Fatalf("%d of %d events are there", n, inFlight)
		}
		again.Signal(syscall.SIGINT)
		servicetest.Is(t, again.Wait(timeout), 0, "exit status after SIGINT")
	}
}

// on is the same browser at another instance.
func (u *user) on(p *servicetest.Process) *user {
	other := u.clone()
	other.URL = p.URL
	return other
}

// halfRequest is a create whose body has not been sent whole.
type halfRequest struct {
	conn net.Conn
	rest string
}

func beginRequest(t *testing.T, p *servicetest.Process, u *user, world string) *halfRequest {
	t.Helper()
	conn := servicetest.Must(net.Dial("tcp", strings.TrimPrefix(p.URL, "http://")))(t)
	t.Cleanup(func() { conn.Close() })
	const body = `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`
	fmt.Fprintf(conn, "POST /api/event/%s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		world, u.Cookies["token"], len(body), body[:10])
	return &halfRequest{conn, body[10:]}
}

// finish sends all that is missing first: a stop gives a second for it.
func finish(t *testing.T, requests []*halfRequest) {
	t.Helper()
	for _, r := range requests {
		fmt.Fprint(r.conn, r.rest)
	}
	for _, r := range requests {
		r.conn.SetDeadline(time.Now().Add(20 * time.Second))
		res, err := http.ReadResponse(bufio.NewReader(r.conn), nil)
		if err != nil {
			t.Errorf("broken: %v", err)
			continue
		}
		res.Body.Close()
		servicetest.Is(t, res.StatusCode, 200, "in flight")
	}
}

// Two instances behind HAProxy are replaced one after the other, again and again, under load. HAProxy resends
// nothing, as it must not: a resent refresh would spend its token twice.
func TestRollingRestartLosesNoRequest(t *testing.T) {
	t.Parallel()
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
	f.redirects()
	for _, res := range load.failed {
		t.Errorf("lost: %v", res)
	}
	t.Logf("4 restarts under %d requests, %d lost", load.sent.Load(), len(load.failed))
	if t.Failed() {
		t.Logf("HAProxy:\n%s", f.log)
	}
}
