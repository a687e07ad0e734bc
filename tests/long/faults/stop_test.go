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
	const inFlight, timeout = 100, 20 * time.Second
	p := servicetest.NewProgram(t, "SHUTDOWN_TIMEOUT="+timeout.String()).ServeReady()
	alice := signIn(t, http.DefaultTransport, p.URL, "alice")
	const body, begun = servicetest.EventBody, 10 // bytes of it are sent before the signal
	var conns []net.Conn
	for range inFlight {
		conn := servicetest.Must(net.Dial("tcp", strings.TrimPrefix(p.URL, "http://")))(t)
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/event/w HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			alice.Cookies["token"], len(body), body[:begun])
		conns = append(conns, conn)
	}
	finish := func(conns []net.Conn) {
		for _, conn := range conns { // all of them first: a stop gives a second for it
			fmt.Fprint(conn, body[begun:])
		}
		for _, conn := range conns {
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			res := servicetest.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
			res.Body.Close()
			servicetest.Is(t, res.StatusCode, 200, "in flight")
		}
	}
	p.Signal(syscall.SIGTERM)
	p.Readiness(503, timeout/5) // as long are new ones taken
	p.Is(401, "GET", servicetest.Plaza, "", "")
	finish(conns[:inFlight/2])
	servicetest.Within(t, timeout, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	finish(conns[inFlight/2:])
	servicetest.Is(t, p.Wait(timeout), 0, "exit status")
	servicetest.Lacks(t, p.Log.String(), "still in flight")
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
	load.losesNothing()
	f.dropsClaims()
	f.redirects()
}
