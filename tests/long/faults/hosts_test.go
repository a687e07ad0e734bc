package faults

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// silentListener accepts connections and never says a word.
func silentListener(t *testing.T) (address string) {
	t.Helper()
	l := servicetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	return l.Addr().String()
}

// creators create events without a pause, and remember those that were acknowledged.
type creators struct {
	t            *testing.T
	probe        *user // creates nothing by itself
	machine      *yardstick
	mu           sync.Mutex
	acknowledged []string
	slowest      response
	stop         func()
}

func newCreators(t *testing.T, p *servicetest.Process, n int) *creators {
	t.Helper()
	transport := newTransport(n + 2)
	t.Cleanup(transport.CloseIdleConnections)
	users := make([]*user, n)
	for i := range users {
		users[i] = signIn(t, transport, p.URL, fmt.Sprintf("user%d", i))
	}
	c := &creators{t: t, probe: signIn(t, transport, p.URL, "probe")}
	c.machine = newYardstick(t, c.probe)
	stop := working(n, func(i int) {
		id, res := users[i].create("w", "x")
		c.mu.Lock()
		defer c.mu.Unlock()
		if res.Took > c.slowest.Took {
			c.slowest = res
		}
		if id != "" {
			c.acknowledged = append(c.acknowledged, id)
		} else if !res.IsJSON() {
			t.Error(res)
		}
	})
	c.stop = sync.OnceFunc(func() {
		stop()
		c.machine.stop()
	})
	t.Cleanup(c.stop)
	servicetest.Eventually(t, "there is load", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.acknowledged) > 200
	})
	return c
}

// firstWrite returns after what time a write succeeds.
func (c *creators) firstWrite(promised time.Duration) time.Duration {
	c.t.Helper()
	took := c.probe.writesAgain(c.t)
	c.machine.within(c.t, promised, took, "the first write")
	return took
}

// finish ends the load and checks that all is there that was acknowledged, and that each response came in time.
func (c *creators) finish() {
	c.t.Helper()
	c.stop()
	c.machine.within(c.t, 3*time.Second, c.slowest.Took, c.slowest)
	c.probe.keeps(c.t, "w", c.acknowledged)
}

// Hosts that refuse, that are silent, or that accept connections and are silent then, cost each new connection their share of half of DB_TIMEOUT.
func TestUselessHosts(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	refused := servicetest.FreeAddress(t)
	for _, hosts := range [][]string{
		{refused, silentListener(t), server.Addr},
		{silentListener(t), silentListener(t), silentListener(t), server.Addr},
		{"name.invalid:5432", silentListener(t), server.Addr, refused},
	} {
		for _, attributes := range []string{"", "?target_session_attrs=read-write", "?target_session_attrs=primary"} {
			url := strings.Replace(server.URL(), server.Addr, strings.Join(hosts, ","), 1) + attributes
			p := servicetest.NewProgram(t, "DATABASE_URL="+url, "DB_TIMEOUT=2s").ServeReady()
			u := signIn(t, plain, p.URL, "alice")
			machine := newYardstick(t, u)
			_, res := u.create("w", "x")
			machine.stop()
			servicetest.Is(t, res.Status, 200, "%v%s: %v", hosts, attributes, res)
			machine.within(t, time.Second, res.Took, hosts)
			p.Kill()
		}
	}
}
