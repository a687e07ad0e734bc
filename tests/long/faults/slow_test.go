package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// idle is how many files may be open besides, for connections kept to the database.
const idle = 40

// Thousands of connections that stop in the middle of their headers, or go on byte by byte there or in a body, are closed in time by the
// service, and meanwhile others are served fast.
func TestSlowClients(t *testing.T) {
	for _, test := range []struct {
		name        string
		connections int
		begin, more string // what each sends at first, and then every second
	}{
		{"half-open", 10_000, "GET /api/event/w HTTP/1.1\r\nHost: localhost\r\nX-Half: ", ""},
		{"headers", 3000, "GET /api/event/w HTTP/1.1\r\nHost: localhost\r\n", "X-More: x\r\n"},
		{"bodies", 3000, "POST /api/event/w HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\nCookie: %s\r\n\r\n{", " "},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := servicetest.NewProgram(t).ServeReady()
			alice := signIn(t, plain, p.URL, "alice")
			judge := watchHonest(t, p)
			files := p.Files()
			begin := strings.Replace(test.begin, "%s", "token="+alice.Cookies["token"], 1)
			end := time.Now().Add(time.Minute)
			var open, late atomic.Int64
			servicetest.AtOnce(test.connections, func(int) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(conn, begin)
				open.Add(1)
				go func() {
					defer open.Add(-1)
					defer conn.Close()
					buffer := make([]byte, 512)
					for time.Now().Before(end) {
						conn.SetReadDeadline(time.Now().Add(time.Second))
						if _, err := conn.Read(buffer); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
							return
						}
						io.WriteString(conn, test.more)
					}
					late.Add(1)
				}()
			})
			most := 0
			servicetest.Within(t, 90*time.Second, "all are closed", func() bool {
				most = max(most, p.Files()-files)
				return open.Load() == 0 && p.Files() <= files+idle
			})
			judge(t, 500<<20)
			alice.creates(t, "w")
			if n := late.Load(); n > 0 {
				t.Errorf("%d connections were open for a minute", n)
			}
			if most < test.connections/2 {
				t.Errorf("only %d connections at once", most)
			}
			t.Logf("up to %d connections at once", most)
		})
	}
}

// A batch of a list ends at its bytes: events as large as they may be, with as many names as are read together, cost a
// slow reader no more than small ones.
func TestSlowReadersOfLargeEvents(t *testing.T) {
	const readers, events, users, perReader = 40, 127, 256, 4 << 20
	for _, open := range databases {
		db := open(t)
		t.Run(db.Dialect, func(t *testing.T) {
			s := &servicetest.Service{Database: db}
			servicetest.CrowdOf(t, s, strings.Repeat("😀", 96), "small", users)
			servicetest.AddEvents(s, "large", 8001, events, 2031, strings.Repeat("😀", 5000))
			join(db, "e.world_id = 'large'")

			p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL).ServeReady()
			alice := signIn(t, plain, p.URL, "alice")
			size := len(alice.Do("GET", "/api/event/large", "").Body)
			memory := p.Memory("VmRSS")
			for range readers {
				conn := servicetest.Must(net.Dial("tcp", strings.TrimPrefix(p.URL, "http://")))(t)
				defer conn.Close()
				conn.(*net.TCPConn).SetReadBuffer(4096)
				fmt.Fprintf(conn, "GET /api/event/large HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n\r\n", alice.Cookies["token"])
				if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil { // nobody shares
					t.Fatal(err)
				}
			}
			grown := p.Memory("VmRSS") - memory
			if grown > readers*perReader {
				t.Errorf("memory grew by %d MB", grown>>20)
			}
			t.Logf("%d readers of a list of %d MB: memory grew by %d MB", readers, size>>20, grown>>20)
		})
	}
}
