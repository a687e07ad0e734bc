//go:build faults

package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Two hosts in the URL, the second a synchronous standby. The first dies under load and the standby is promoted: the
// first write succeeds within a second, and nothing that was acknowledged is lost.
func TestPromotedStandby(t *testing.T) {
	primary := servicetest.NewPostgresServer(t)
	standby := primary.Standby("standby")
	primary.Exec("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	primary.Exec("SELECT pg_reload_conf()")
	db := primary.Database()
	servicetest.Eventually(t, 10*time.Second, "the standby is synchronous", func() bool {
		return db.Count("pg_stat_replication WHERE sync_state = 'sync'") == 1
	})
	p := servicetest.NewProgram(t, "DATABASE_URL="+servicetest.PostgresURL(primary, standby), "DB_TIMEOUT=2s").ServeReady()

	const n = 10
	transport := newTransport(n)
	defer transport.CloseIdleConnections()
	users := make([]*user, n)
	for i := range users {
		users[i] = signIn(t, transport, p.URL, fmt.Sprintf("user%d", i))
	}
	probe := signIn(t, transport, p.URL, "probe")
	var mu sync.Mutex
	var acknowledged []string
	stop := make(chan struct{})
	wait := workers(n, stop, func(i int) {
		if id, res := users[i].create("w", "x"); id != "" {
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, id)
		} else if !res.isJSON() {
			t.Error(res)
		}
	})
	servicetest.Eventually(t, 20*time.Second, "there is load", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) > 200
	})
	primary.Kill()
	standby.Promote()
	promoted := time.Now()
	servicetest.Eventually(t, time.Second, "a write succeeds", func() bool {
		id, _ := probe.create("w", "first")
		return id != ""
	})
	first := time.Since(promoted)
	servicetest.Eventually(t, 2*time.Second, "readiness says 200", func() bool { return p.Admin("/readyz") == 200 })
	close(stop)
	wait()
	there := make(map[string]bool)
	for _, e := range probe.list(t, "w").Events {
		there[e.ID] = true
	}
	for _, id := range acknowledged {
		if !there[id] {
			t.Errorf("event %s was acknowledged and is lost", id)
		}
	}
	t.Logf("first write %v after the promotion, %d acknowledged events are all there", first.Round(time.Millisecond), len(acknowledged))
}

// Started while the database is away, in whatever way, the service waits and becomes ready by itself.
func TestStartWithoutDatabase(t *testing.T) {
	server := servicetest.NewPostgresServer(t)
	for _, test := range []struct {
		name        string
		leave, back func()
	}{
		{"down", server.Kill, server.Start},
		{"paused", server.Pause, server.Resume},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.leave()
			p := servicetest.NewProgram(t, "DATABASE_URL="+server.URL()).Serve()
			for begin := time.Now(); time.Since(begin) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
				if live, ready := p.Admin("/livez"), p.Admin("/readyz"); live != 200 || ready != 503 {
					t.Fatalf("liveness %d, readiness %d", live, ready)
				}
			}
			if status, body := p.Do("GET", "/api/auth/session", "", ""); status != 503 || !strings.HasPrefix(body, `{"error":"Starting","code":"overloaded"`) {
				t.Errorf("meanwhile: %d %s", status, body)
			}
			test.back()
			back := time.Now()
			servicetest.Eventually(t, 5*time.Second, "readiness says 200", func() bool { return p.Admin("/readyz") == 200 })
			t.Logf("ready after %v", time.Since(back).Round(time.Millisecond))
			signIn(t, plain.Transport, p.URL, "alice")
		})
	}
}
