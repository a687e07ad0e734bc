package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// follower is a client that waits for news of a list over one connection.
type follower struct {
	user *user
	etag string
	conn net.Conn
	r    *bufio.Reader
}

// send asks for news, on a new connection if there is none. The kernel takes little for it before it reads.
func (f *follower) send(t *testing.T) {
	t.Helper()
	if f.conn == nil {
		dialer := net.Dialer{Control: smallBuffer}
		f.conn = servicetest.Must(dialer.Dial("tcp", strings.TrimPrefix(f.user.URL, "http://")))(t)
		t.Cleanup(func() { f.conn.Close() })
		f.r = bufio.NewReaderSize(f.conn, 1024)
	}
	const request = "GET %s?wait=50 HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: %s\r\nCookie: token=%s\r\n\r\n"
	servicetest.Must(fmt.Fprintf(f.conn, request, plaza, f.etag, f.user.Cookies["token"]))(t)
}

// read reads the news.
func (f *follower) read(t *testing.T) {
	t.Helper()
	res := servicetest.Must(http.ReadResponse(f.r, nil))(t)
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %v", res.StatusCode, err)
	}
	f.etag = res.Header.Get("ETag")
}

const plaza, waiting = "/api/event/plaza", "worldevents_list_watches"

// A thousand waiting clients take little and give all of it back: each has 8 KB of stack and 2 KB for its reader, whatever it took to
// verify a new JWT or to write the news.
func TestManyWait(t *testing.T) {
	t.Parallel()
	const waiters = 1000
	db := servicetest.Postgres(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=error", "SESSIONS_PER_USER=100", "GODEBUG=adaptivestackstart=0").ServeReady() // as deploy/ has it
	var users []*user
	for i := range 20 { // of one user at most an eighth of MAX_WAITING wait
		users = append(users, signIn(t, plain, p.URL, fmt.Sprint("user ", i)))
	}
	for range 5 { // a list that is worth a stack
		users[0].create("plaza", strings.Repeat("n", 200))
	}
	db.Exec("UPDATE events SET description = ?", strings.Repeat("d", 5000))
	etag := users[0].Do("GET", plaza, "").Header.Get("ETag")
	var all []*follower
	for len(all) < waiters {
		u := users[len(all)%20]
		u.Do("GET", servicetest.RefreshPath, "").Is(t, 200)
		all = append(all, &follower{user: u.clone(), etag: etag}) // with a JWT of its own
	}
	const stacks, goroutines = "go_memstats_stack_inuse_bytes", "go_goroutines"
	memory, before, routines := p.Memory("VmRSS"), p.Metric(stacks), p.Metric(goroutines)
	await := func() {
		t.Helper()
		for _, f := range all {
			f.send(t)
		}
		servicetest.Within(t, time.Minute, "all wait", func() bool { return p.Metric(waiting) == waiters })
		if each := (p.Metric(stacks) - before) / waiters; each > 13_000 {
			t.Errorf("stacks of %.0f bytes for each", each)
		}
		if each := float64(p.Memory("VmRSS")-memory) / waiters / 1000; each > 80 {
			t.Errorf("%.1f kB for each", each)
		}
	}
	await()
	users[0].create("plaza", "news")
	for _, f := range all {
		f.read(t)
	}
	await()
	for _, f := range all {
		f.conn.Close()
	}
	servicetest.Within(t, 40*time.Second, "all is given back", func() bool {
		return p.Metric(waiting) == 0 && p.Metric(goroutines) < routines+50
	})
}

// A response that was waited for may take as long as any other, although the deadlines of its request are over.
func TestWaitPastDeadlines(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL).ServeReady()
	servicetest.AddEvents(&servicetest.Service{Database: db}, "plaza", 8001, 150, 2031, strings.Repeat("d", 5000))
	alice := signIn(t, plain, p.URL, "alice")
	f := &follower{user: alice, etag: alice.Do("GET", plaza, "").Header.Get("ETag")}
	f.send(t)
	time.Sleep(31 * time.Second) // longer than the deadlines for reading the request and writing the response
	servicetest.Is(t, p.Metric(waiting), 1, "who wait")
	alice.create("plaza", "n")
	time.Sleep(500 * time.Millisecond) // the kernel does not take all of it at once
	f.conn.(*net.TCPConn).SetReadBuffer(4 << 20)
	f.read(t)
}
