package faults

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

const (
	// attackers is how many clients at once ask and do not read, attackTime for how long.
	attackers  = 3000
	attackTime = 7 * time.Second
	// attackBegin is the time within which they have all begun.
	attackBegin = 5 * time.Second
	// attackerStays is after how long such a client hangs up and comes back.
	attackerStays = 5 * time.Second
	// Meanwhile none of the honest requests is refused, half of them take so long at most, or so many times as long as the machine wakes
	// a sleeper late, and memory grows by less than this. Large lists may hold 96 MiB and the connections 50; the collector lets that double.
	// At most 308 MB were seen.
	honestTime   = time.Second
	honestLate   = 20
	attackMemory = 350 * 1000 * 1000
)

// Thousands of clients who ask for much and read nothing take nothing from others: nobody who reads is refused or slow,
// and memory stays in bounds. It is the same with one account, with many at many addresses, and with none.
func TestUnreadResponses(t *testing.T) {
	for _, open := range databases {
		db := open(t)
		t.Run(db.Dialect, func(t *testing.T) {
			s := &servicetest.Service{Database: db}
			servicetest.AddEvents(s, "large", 8001, 1500, 2031, strings.Repeat("x", 5000)) // 7 MB
			servicetest.AddEvents(s, "medium", 8002, 200, 2031, strings.Repeat("x", 5000)) // just small enough to be kept
			servicetest.CrowdOf(t, s, "somebody", "crowd", 100_000)
			for _, test := range []struct {
				name string
				// request is what an attacker sends: the i-th, who is one of users.
				request func(i int, users []*user) string
			}{
				{"one large list", func(_ int, users []*user) string { return get("/api/event/large", users[0]) }},
				{"different lists of one account", func(i int, users []*user) string {
					return get(fmt.Sprintf("/api/event/large?from=%d-01-01T00:00:00Z", 1970+i%50), users[0])
				}},
				{"many accounts", func(i int, users []*user) string {
					return get([]string{"/api/event/large", "/api/event/medium", "/api/event/crowd", "/api/event/large?limit=1000"}[i%4], users[i%len(users)])
				}},
				{"a file", func(int, []*user) string { return strings.Repeat(get("/docs/swagger-ui-bundle.js", nil), 16) }},
			} {
				if db.Dialect == "postgres" && !strings.Contains(test.name, "account") {
					continue // one is asked of the database once, and the other never
				}
				t.Run(test.name, func(t *testing.T) {
					p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_TIMEOUT=20s", "LOG_LEVEL=error").ServeReady()
					users := make([]*user, 1)
					if test.name == "many accounts" {
						users = make([]*user, 100)
					}
					for i := range users {
						users[i] = signIn(t, plain, p.URL, fmt.Sprint("attacker ", i))
					}
					manyAddresses := strings.Contains(test.name, "many")
					judge := watchHonest(t, p)
					refused := attack(t, p, manyAddresses, func(i int) string { return test.request(i, users) })
					judge(t, attackMemory)
					t.Logf("of the attackers %d could not connect", refused)
				})
			}
		})
	}
}

// get is a request of a user, or of nobody.
func get(path string, u *user) string {
	text := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	if u != nil {
		text += "Cookie: token=" + u.Cookies["token"] + "\r\n"
	}
	return text + "\r\n"
}

// smallBuffer is for a dialer: the kernel takes little for a client that does not read.
func smallBuffer(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
}

// attack has attackers clients send requests and read nothing, and returns how often one could not connect.
func attack(t *testing.T, p *servicetest.Process, manyAddresses bool, request func(i int) string) int64 {
	ctx, cancel := context.WithTimeout(t.Context(), attackTime)
	defer cancel()
	pause := func(d time.Duration) (goesOn bool) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	var failed atomic.Int64
	var all sync.WaitGroup
	for i := range attackers {
		all.Go(func() {
			dialer := net.Dialer{Timeout: 5 * time.Second, Control: smallBuffer}
			if manyAddresses {
				dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%100))}
			}
			for wait := time.Duration(i) * attackBegin / attackers; pause(wait); wait = rand.N(100 * time.Millisecond) {
				conn, err := dialer.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
				if err != nil {
					failed.Add(1)
					pause(attackerStays)
					continue
				}
				conn.SetWriteDeadline(time.Now().Add(time.Second))
				io.WriteString(conn, request(i))
				pause(attackerStays)
				conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		})
	}
	all.Wait()
	return failed.Load()
}

// watchHonest has a user work, and watches the memory, until the returned function judges how both fared. Nothing may be refused. A busy
// machine delays single requests: half of them must be fast.
func watchHonest(t *testing.T, p *servicetest.Process) (judge func(t *testing.T, mostMemory int)) {
	t.Helper()
	transport := newTransport(4)
	t.Cleanup(transport.CloseIdleConnections)
	alice := signIn(t, transport, p.URL, "alice")
	alice.Do("GET", "/api/event/medium", "").Is(t, 200)
	memory := p.Memory("VmRSS")
	peak := memory
	var mu sync.Mutex
	var took []time.Duration
	refused := 0
	late, rest := servicetest.Oversleep()
	t.Cleanup(rest)
	stop := working(2, func(i int) {
		u := alice.clone()
		results := []response{u.Do("GET", "/api/auth/session", ""), u.Do("GET", "/api/event/quiet", ""), u.Do("GET", "/openapi.json", ""),
			u.Do("POST", "/api/event/join/x", "")}
		grown, live := p.Memory("VmRSS"), p.Admin("/livez")
		mu.Lock()
		defer mu.Unlock()
		peak = max(peak, grown)
		servicetest.Is(t, live, 200, "liveness")
		for _, res := range results {
			took = append(took, res.Took)
			if res.Status != 200 && res.Status != 404 {
				if refused++; refused <= 3 {
					t.Errorf("honest: %v", res)
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	})
	t.Cleanup(stop)
	return func(t *testing.T, mostMemory int) {
		t.Helper()
		stop()
		slices.Sort(took)
		median := took[len(took)/2]
		if most := honestTime + honestLate*late(); median > most {
			t.Errorf("half of the honest requests took more than %v, most allowed %v", median, most)
		}
		if peak-memory > mostMemory {
			t.Errorf("memory grew by %d MB", (peak-memory)/1_000_000)
		}
		t.Logf("%d honest requests, %d refused: median %v, 99 %% within %v; memory grew by %d MB from %d MB", len(took), refused,
			median.Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond), (peak-memory)/1_000_000, memory/1_000_000)
	}
}
