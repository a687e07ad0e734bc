package faults

import (
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// throughProxy is a proxy in front of a server, and the URL that leads through it.
func throughProxy(t *testing.T, server *servicetest.PostgresServer) (proxy *servicetest.Proxy, url string) {
	t.Helper()
	proxy = servicetest.NewProxy(t, server.Addr)
	return proxy, strings.Replace(server.URL(), server.Addr, proxy.Addr, 1)
}

// A server falls silent just after it has taken a connection, for as many connections as the pool may have: the pool works again when the
// server does.
func TestSilenceAfterHandshake(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	proxy, url := throughProxy(t, server)
	p := servicetest.NewProgram(t, "DATABASE_URL="+url, "DB_TIMEOUT=2s", "DB_MAX_CONNS=2").ServeReady()
	alice := signIn(t, plain, p.URL, "alice")
	machine := newYardstick(t, alice)
	proxy.Hush()
	server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'worldevents'")
	statuses := make(map[int]int)
	for begin := time.Now(); time.Since(begin) < 10*time.Second; {
		_, res := alice.create("w", "x")
		statuses[res.Status]++
		machine.within(t, 3*time.Second, res.Took, res)
		if res.Status != 500 && res.Status != 503 {
			t.Error(res)
		}
	}
	if statuses[500] > 2 { // of connections that were there before
		t.Errorf("responses by status: %v", statuses)
	}
	proxy.Up()
	took := alice.writesAgain(t)
	machine.stop()
	machine.within(t, 5*time.Second, took, "the first write")
	t.Logf("responses by status meanwhile: %v; the first write after %v", statuses, took.Round(time.Millisecond))
}

// Nobody fences a primary that has frozen. A standby is promoted, and the primary goes on: an instance that has met the new primary acknowledges
// nothing at the old one, although that comes first in the URL and connections have to be made again.
func TestOldPrimaryGoesOn(t *testing.T) {
	t.Parallel()
	old := servicetest.NewPostgresServer(t)
	standby := old.Standby("standby") // asynchronous: the old one could commit by itself
	p := servicetest.NewProgram(t, "DATABASE_URL="+servicetest.PostgresURL(old, standby), "DB_TIMEOUT=2s").ServeReady()
	load := newCreators(t, p, 10)
	old.Pause()
	standby.Promote()
	first := load.firstWrite(5 * time.Second)
	load.mu.Lock()
	before := len(load.acknowledged)
	load.mu.Unlock()
	old.Resume()
	for range 5 {
		time.Sleep(time.Second) // for connections to be made
		standby.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'worldevents'")
	}
	load.firstWrite(5 * time.Second)
	load.stop()
	load.probe.keeps(t, "w", load.acknowledged[before:])
	t.Logf("first write %v after the promotion; %d events were acknowledged since the old primary goes on", first.Round(time.Millisecond), len(load.acknowledged)-before)
}
