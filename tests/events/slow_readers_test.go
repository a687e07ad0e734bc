package events

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

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
		servicetest.Eventually(t, "all is given back", func() bool { return alice.Get(paths[1]).Status == 200 })
	}, func(o *servicetest.Options) { o.ListCache = 0 })
}

// A user who does not read many lists that are small is refused more of them, and nobody else is. What was not refused is whole.
func TestUnreadResponsesOfOneUser(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const size = 250_000
		servicetest.AddEvents(s, "plaza", 8000, size/5000, 2030, strings.Repeat("d", 4800))
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		var unread []*http.Response
		for before := -1; before != servicetest.Held(t, s, "small_list_bytes") && len(unread) < 100; {
			before = servicetest.Held(t, s, "small_list_bytes")
			if before+size > 8<<20 {
				break
			}
			res, conn := servicetest.OpenListAt(t, s, alice, servicetest.Plaza)
			defer conn.Close()
			unread = append(unread, res)
		}
		if len(unread) < 30 {
			t.Fatalf("%d lists are unread", len(unread))
		}
		alice.Get(servicetest.Plaza).IsError(503, "overloaded").HasHeader("Retry-After", "1")
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
		for _, path := range []string{servicetest.Plaza + "?limit=1", "/api/event/quiet"} {
			alice.Get(path).Has(200)
		}
		bob.Get(servicetest.Plaza).Has(200)
		var reading sync.WaitGroup
		for _, res := range unread { // each of which the kernel sends a few bytes at a time, into a small buffer
			reading.Go(func() {
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Error(err)
				}
			})
		}
		reading.Wait()
		servicetest.Eventually(t, "all is given back", func() bool { return servicetest.Held(t, s, "small_list_bytes") == 0 })
	}, func(o *servicetest.Options) { o.ListCache = 0 })
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
		servicetest.Eventually(t, "an honest request is served", func() bool {
			return s.Client().Get(servicetest.SessionPath).Status == http.StatusBadRequest
		})
	}, func(o *servicetest.Options) { o.MaxInFlight = 4 })
}
