package commands

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// health answers as the instance's own probes do, by exit status, and says in one line what is wrong.
func TestHealth(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	is := func(p *servicetest.Program, status int, words string, args ...string) {
		t.Helper()
		stdout, stderr, got := p.Run(append([]string{"health"}, args...)...)
		if got != status || stdout != "" || words == "" && stderr != "" || words != "" && !servicetest.OneLine(stderr, words) {
			t.Errorf("%v: %d %q %q, want %d %s", args, got, stdout, stderr, status, words)
		}
	}
	is(p, 1, "connection refused")
	is(p, 1, "connection refused", "--live")
	is(p.With("ADMIN_ADDR="), 1, "ADMIN_ADDR is empty")
	is(p.With("ADMIN_ADDR="), 1, "ADMIN_ADDR is empty", "--live")

	s := p.ServeReady()
	is(p, 0, "")
	is(p, 0, "", "--live")
	_, port, _ := net.SplitHostPort(p.Getenv("ADMIN_ADDR"))
	is(p.With("ADMIN_ADDR=:"+port), 0, "")
	is(p.With("ADMIN_ADDR=0.0.0.0:"+port), 0, "")
	is(p.With("JWT_SECRET=short", "HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1"), 0, "")
	is(p.With("ADMIN_ADDR="+strings.TrimPrefix(s.URL, "http://")), 1, "404") // the public listener

	for answer, words := range map[string]string{
		"HTTP/1.0 200 OK\r\n\r\nhello": `200 "hello"`, "HTTP/1.0 500 No\r\n\r\n\x1b[31m": `500 "\x1b[31m"`, "SSH-2.0\r\n": "malformed",
	} { // of other programs
		is(p.With("ADMIN_ADDR="+listenAs(t, func(conn net.Conn) {
			conn.Read(make([]byte, 1000))
			io.WriteString(conn, answer)
		})), 1, words)
	}

	waits := p.Another().With("DATABASE_URL=postgres://127.0.0.1:1/worldevents")
	waits.Serve()
	is(waits, 1, `503 "not ready`)
	is(waits, 0, "", "--live")

	begun := time.Now()
	is(p.With("ADMIN_ADDR="+listenAs(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })), 1, "deadline exceeded")
	if took := time.Since(begun); took < 4*time.Second {
		t.Errorf("it has waited %v for a silent instance", took)
	}
}
