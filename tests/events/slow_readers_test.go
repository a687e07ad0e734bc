package events

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// stall opens n requests of c for a large list that nobody reads, and returns how to hang up.
func stall(t *testing.T, s *servicetest.Service, c *servicetest.Client, path string, n int) (hangUp func()) {
	t.Helper()
	var all []*net.TCPConn
	for range n {
		_, conn := servicetest.OpenListAt(t, s, c, path)
		all = append(all, conn)
	}
	return func() {
		for _, conn := range all {
			conn.Close()
		}
	}
}

// Who reads nothing keeps nobody from a large list but themselves, and nobody from small ones. Once they are gone all is given back.
func TestListEventsBesideSlowReaders(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		var paths []string
		for world := range 2 {
			path := fmt.Sprint("/api/event/large ", world)
			servicetest.AddEvents(s, path[len("/api/event/"):], 8000+world, 1500, 2030, strings.Repeat("🎲", 5000))
			paths = append(paths, strings.ReplaceAll(path, " ", "%20"))
		}
		hangUp := stall(t, s, alice, paths[0], 1)
		defer hangUp()
		if res := alice.Get(paths[1]).IsError(503, "overloaded").HasHeader("Retry-After", "1"); !res.Close {
			t.Error("a response that was refused keeps a connection")
		}
		alice.Get("/api/event/quiet").Is(200, servicetest.List())
		for _, path := range []string{paths[0], paths[1]} { // of at most 1 MiB
			if res := bob.Get(path + "?limit=45"); res.Status != 200 || len(res.Body) < 900_000 {
				t.Errorf("another user is refused: %d", res.Status)
			}
		}
		hangUp()
		servicetest.Eventually(t, 20*time.Second, "all is given back", func() bool { return alice.Get(paths[1]).Status == 200 })
	}, func(o *servicetest.Options) { o.ListCache = 0 })
}

// A user for whom as many responses wait as may is refused large ones, and nobody else is.
func TestWaitingResponses(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.CrowdOf(t, s, longName, "plaza", many)
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		// Of 64 in flight 16 may wait, 2 of one user.
		first, conn := servicetest.OpenListAt(t, s, alice, servicetest.Plaza)
		defer conn.Close()
		servicetest.Eventually(t, 10*time.Second, "the first one waits", func() bool {
			now, _ := servicetest.StalledResponses(t, s)
			return now == 1
		})
		others, connOfOthers := servicetest.OpenListAt(t, s, bob, servicetest.Plaza)
		defer connOfOthers.Close()
		servicetest.Eventually(t, 10*time.Second, "two wait", func() bool {
			now, _ := servicetest.StalledResponses(t, s)
			return now == 2
		})
		// Small responses are not refused, but no more large ones, of the user who has their share.
		defer stall(t, s, alice, servicetest.Plaza, 1)()
		servicetest.Eventually(t, 10*time.Second, "three wait", func() bool {
			now, _ := servicetest.StalledResponses(t, s)
			return now == 3
		})
		if res := alice.Get(servicetest.Plaza).IsError(503, "overloaded").HasHeader("Retry-After", "1"); !res.Close {
			t.Error("a response that was refused keeps a connection")
		}
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
		bob.Get("/api/event/quiet").Is(200, servicetest.List())
		if _, aborted := servicetest.StalledResponses(t, s); aborted != 0 {
			t.Errorf("%d were aborted", aborted)
		}
		conn.SetReadBuffer(4 << 20)
		connOfOthers.SetReadBuffer(4 << 20)
		for _, res := range []*http.Response{first, others} { // what was not refused is whole
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Error(err)
			}
		}
	}, func(o *servicetest.Options) { o.MaxInFlight = 64 })
}

// A request whose response waits for its client takes no place of those in flight.
func TestMaxInFlightWithoutWaiting(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.CrowdOf(t, s, longName, "plaza", many)
		var hangUps []func()
		for i := range 4 {
			hangUps = append(hangUps, stall(t, s, s.SignIn(fmt.Sprint("slow ", i)), servicetest.Plaza, 1))
		}
		defer func() {
			for _, hangUp := range hangUps {
				hangUp()
			}
		}()
		servicetest.Eventually(t, 10*time.Second, "an honest request is served", func() bool {
			return s.Client().Get(servicetest.SessionPath).Status == http.StatusBadRequest
		})
	}, func(o *servicetest.Options) { o.MaxInFlight = 4 })
}
