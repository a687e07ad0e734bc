package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// idle is how many files may be open besides, for connections kept to the database.
const idle = 40

// Thousands of connections that dawdle are closed in time, and meanwhile others are served fast.
func TestSlowClients(t *testing.T) {
	slowhttptest := servicetest.Tool(t, "slowhttptest")
	for _, test := range []struct {
		name string
		args []string
		// lasts is how long one such connection may take, most how many there must have been at once.
		lasts time.Duration
		most  int
	}{
		{"headers", []string{"-H", "-c", "10000", "-r", "3000", "-i", "2", "-l", "12"}, 10 * time.Second, 2000},
		{"bodies", []string{"-B", "-c", "5000", "-r", "3000", "-i", "2", "-s", "60000", "-x", "10", "-l", "16", "-f", "application/json"}, 16 * time.Second, 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := servicetest.NewProgram(t).ServeReady()
			alice := signIn(t, plain.Transport, p.URL, "alice")
			health := watchHealth(t, p, alice)
			files, memory := p.Files(), p.Memory("VmRSS")

			path := p.URL + "/api/event/w"
			args := append(test.args, "-u", path, "-p", "5", "-j", "token="+alice.cookies["token"])
			command := exec.Command(slowhttptest, args...)
			var out bytes.Buffer
			command.Stdout, command.Stderr = &out, &out
			begin := time.Now()
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				command.Wait()
				close(ended)
			}()
			most, peak := 0, 0
			servicetest.Eventually(t, 60*time.Second, "slowhttptest ends", func() bool {
				most, peak = max(most, p.Files()-files), max(peak, p.Memory("VmRSS")-memory)
				select {
				case <-ended:
					return true
				default:
					return false
				}
			})
			servicetest.Eventually(t, test.lasts, "all are closed", func() bool { return p.Files() <= files+idle })
			health(t)
			if _, res := alice.create("w", "x"); res.status != 200 {
				t.Error(res)
			}
			if most < test.most {
				t.Errorf("only %d connections at once:\n%s", most, out.String())
			}
			if peak > 500<<20 {
				t.Errorf("memory grew by %d MB", peak>>20)
			}
			t.Logf("up to %d connections at once, memory grew by %d MB, all closed %v after the beginning", most, peak>>20, time.Since(begin).Round(time.Second))
		})
	}
}

// Ten thousand connections at once that stop in the middle of their headers.
func TestHalfOpenConnections(t *testing.T) {
	const n = 10_000
	p := servicetest.NewProgram(t).ServeReady()
	alice := signIn(t, plain.Transport, p.URL, "alice")
	health := watchHealth(t, p, alice)
	files, memory := p.Files(), p.Memory("VmRSS")
	begin := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range n / 4 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { conn.Close() })
				fmt.Fprint(conn, "GET /api/event/w HTTP/1.1\r\nHost: localhost\r\nX-Half: ")
			}
		})
	}
	all.Wait()
	most, peak, opened := 0, 0, time.Now()
	servicetest.Eventually(t, 10*time.Second, "all are closed", func() bool {
		most, peak = max(most, p.Files()-files), max(peak, p.Memory("VmRSS")-memory)
		return p.Files() <= files+idle
	})
	health(t)
	if peak > 500<<20 {
		t.Errorf("memory grew by %d MB", peak>>20)
	}
	t.Logf("%d connections opened within %v, up to %d at once, memory grew by %d MB, all closed %v later",
		n, opened.Sub(begin).Round(time.Millisecond), most, peak>>20, time.Since(opened).Round(time.Millisecond))
}

// Clients that ask for a large list and do not read it hold no connection to the database, and are cut off.
func TestSlowReaders(t *testing.T) {
	const readers = 60
	p := servicetest.NewProgram(t).ServeReady()
	alice := signIn(t, plain.Transport, p.URL, "alice")
	for range 1500 {
		if res := alice.do("POST", "/api/event/large", fmt.Sprintf(`{"name":"n","description":%q,"scheduledAt":"2030-01-01T00:00:00Z"}`, strings.Repeat("x", 5000))); res.status != 200 {
			t.Fatal(res)
		}
	}
	size := len(alice.do("GET", "/api/event/large", "").body)
	health := watchHealth(t, p, alice)
	files, memory := p.Files(), p.Memory("VmRSS")
	begin := time.Now()
	for range readers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.(*net.TCPConn).SetReadBuffer(4096)
		fmt.Fprintf(conn, "GET /api/event/large HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n\r\n", alice.cookies["token"])
		time.Sleep(20 * time.Millisecond) // the first bytes cost work, and this is about the others
	}
	peak := 0
	servicetest.Eventually(t, 60*time.Second, "all are closed", func() bool {
		peak = max(peak, p.Memory("VmRSS")-memory)
		return time.Since(begin) > time.Second && p.Files() <= files+idle
	})
	health(t)
	if peak > readers*3<<20 {
		t.Errorf("memory grew by %d MB", peak>>20)
	}
	t.Logf("%d readers of a list of %d MB: memory grew by %d MB, all closed after %v", readers, size>>20, peak>>20, time.Since(begin).Round(time.Second))
}

// A batch of a list ends at its bytes: events as large as they may be, with as many names as are read together, cost a
// slow reader no more than small ones.
func TestSlowReadersOfLargeEvents(t *testing.T) {
	const readers, events, users, perReader = 40, 127, 256, 4 << 20
	for _, open := range []func(testing.TB) *servicetest.Database{servicetest.SQLite, servicetest.Postgres} {
		db := open(t)
		t.Run(db.Dialect, func(t *testing.T) {
			id := func(kind int, n string) string {
				if db.Dialect == "postgres" {
					return fmt.Sprintf("CAST('00000000-0000-7000-%d-' || lpad(CAST(%s AS text), 12, '0') AS uuid)", kind, n)
				}
				return fmt.Sprintf("printf('00000000-0000-7000-%d-%%012d', %s)", kind, n)
			}
			const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
			const moment = "'2030-01-01 00:00:00+00:00'"
			db.Exec(fmt.Sprintf("INSERT INTO users (id, username, created_at) "+numbers+"SELECT %s, '%s' || (1000 + i), %s FROM n",
				users, id(9000, "i"), strings.Repeat("😀", 96), moment))
			db.Exec(fmt.Sprintf("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) "+numbers+"SELECT %s, 'large', 'n', '%s', %s, %s FROM n",
				events, id(8000, "i"), strings.Repeat("😀", 5000), moment, moment))
			db.Exec("INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT e.number, u.number, u.username, " + moment + " FROM events e, users u")

			p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL).ServeReady()
			alice := signIn(t, plain.Transport, p.URL, "alice")
			size := len(alice.do("GET", "/api/event/large", "").body)
			memory := p.Memory("VmRSS")
			for range readers {
				conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.(*net.TCPConn).SetReadBuffer(4096)
				fmt.Fprintf(conn, "GET /api/event/large HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n\r\n", alice.cookies["token"])
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

// watchHealth sends requests as healthy clients do until the returned function judges how they fared.
func watchHealth(t *testing.T, p *servicetest.Process, u *user) func(t *testing.T) {
	var mu sync.Mutex
	var took []time.Duration
	stop := make(chan struct{})
	wait := workers(2, stop, func(int) {
		u := u.clone()
		for _, res := range []response{u.do("GET", "/api/auth/session", ""), u.do("GET", "/api/event/healthy", ""), u.do("POST", "/api/event/join/x", "")} {
			if res.status != 200 && res.status != 404 {
				t.Errorf("healthy: %v", res)
			}
			mu.Lock()
			took = append(took, res.took)
			mu.Unlock()
		}
		if live := p.Admin("/livez"); live != 200 {
			t.Errorf("liveness %d", live)
		}
		time.Sleep(20 * time.Millisecond)
	})
	var once sync.Once
	end := func() {
		once.Do(func() {
			close(stop)
			wait()
		})
	}
	t.Cleanup(end)
	return func(t *testing.T) {
		end()
		slices.Sort(took)
		p50, p99 := took[len(took)/2], took[len(took)*99/100]
		if p99 > time.Second {
			t.Errorf("of %d healthy requests 99 %% took up to %v", len(took), p99)
		}
		t.Logf("%d healthy requests: median %v, 99 %% within %v", len(took), p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond))
	}
}
