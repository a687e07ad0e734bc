package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Until the database has been migrated for the first time requests wait for that, as clients do who meet a restart. If it is stopped first
// or takes too long, they are told to come again, pages included.
func TestRequestsAwaitTheStart(t *testing.T) {
	t.Parallel()
	for end, timeout := range map[string]string{"it starts": "30s", "it is stopped": "30s", "it takes too long": "2s"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			proxy, through := servicetest.Postgres(t).ThroughProxy()
			proxy.Down()
			s := servicetest.NewProgram(t, "DATABASE_URL="+through, "DB_TIMEOUT="+timeout, "SHUTDOWN_TIMEOUT=60s").Serve()
			starts := end == "it starts"
			paths := []string{servicetest.SessionPath, servicetest.RefreshPath, servicetest.Plaza, "/docs", "/sign-in", "/sessions", "/nowhere"}
			var wait sync.WaitGroup
			for _, path := range paths {
				wait.Go(func() {
					res, err := http.Get(s.URL + path)
					if err != nil {
						t.Error(err)
						return
					}
					defer res.Body.Close()
					body, _ := io.ReadAll(res.Body)
					refused := res.StatusCode == 503 && res.Header.Get("Retry-After") == "1" && strings.HasPrefix(string(body), `{"error":"Starting","code":"overloaded","requestId":"`)
					if refused == starts || starts && res.StatusCode >= 500 {
						t.Errorf("%s: %d %v %s", path, res.StatusCode, res.Header, body)
					}
				})
			}
			if end != "it takes too long" {
				servicetest.Eventually(t, "they wait", func() bool {
					_, metrics := s.AdminBody("/metrics")
					return strings.Contains(metrics, fmt.Sprintf("\nworldevents_held{of=\"requests\"} %d\n", len(paths)))
				})
			}
			if starts {
				proxy.Up()
			} else if end == "it is stopped" {
				s.Signal(syscall.SIGINT)
				s.Wait(10 * time.Second)
			}
			wait.Wait()
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// A response that is written while the instance is being drained closes its connection, also when its request began
// before.
func TestResponsesCloseWhileDraining(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	for _, drained := range []bool{false, true} {
		conn := servicetest.Must(tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true}))(t)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nCookie: token=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			servicetest.Plaza, alice.Session.Token, len(servicetest.EventBody))
		r := bufio.NewReader(conn)
		// 100 Continue says that the handler has begun to read.
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Fatalf("%q %v", line, err)
		}
		r.ReadString('\n')
		if drained {
			s.Drain()
		}
		io.WriteString(conn, servicetest.EventBody)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != 200 || res.Close != drained {
			t.Errorf("drained: %v, %v %v", drained, res, err)
		}
	}
}

// While the service starts, whoever sends too much hears so at once, and whoever leaves is no failure of the service.
func TestRulesDuringTheStart(t *testing.T) {
	t.Parallel()
	proxy, through := servicetest.Postgres(t).ThroughProxy()
	proxy.Down()
	s := servicetest.NewProgram(t, "DATABASE_URL="+through, "DB_TIMEOUT=30s", "RATE_LIMIT=1").Serve()
	ctx, leave := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var refused atomic.Int32
	for range 50 {
		wait.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+servicetest.SessionPath, nil)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
				if res.StatusCode != 429 {
					t.Errorf("%d", res.StatusCode)
				}
				refused.Add(1)
			}
		})
	}
	servicetest.Within(t, 4*time.Second, "somebody is refused", func() bool { return refused.Load() > 0 })
	leave()
	wait.Wait()
	servicetest.Eventually(t, "those who left are logged", func() bool { return strings.Contains(s.Log.String(), "status=499") })
	servicetest.Lacks(t, s.Log.String(), "status=503")
}
