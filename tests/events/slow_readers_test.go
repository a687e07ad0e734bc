package events

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
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

// A list is the same, and so are its pages, when others hold the memory that it would be held or streamed with; it only
// goes without ETag.
func TestListEventsBesideSlowReaders(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		// With so little memory an event's RSVPs beyond 16 are read in batches, of a few dozen at a time.
		want := servicetest.Crowd(t, s, "plaza", 15, 16, 17, 33, 1, 0, 255, 256, 257, 0, 2500, 3)
		servicetest.AddEvents(s, "slow", 8100, 300, 2030, strings.Repeat("d", 5000))
		medium := fmt.Sprintf("%s?limit=%d", servicetest.Plaza, 9)
		alice := s.SignIn("alice")
		first := alice.Get(medium)
		if first.Header.Get("ETag") == "" || len(first.Body) < 64<<10 {
			t.Fatalf("a page of %d bytes with ETag %q", len(first.Body), first.Header.Get("ETag"))
		}
		defer stall(t, s, alice, "/api/event/slow", 8)()

		if got := servicetest.Usernames(t, alice.Get(servicetest.Plaza).Body); !servicetest.Equal(got, want) {
			t.Errorf("the whole list differs: %d events", len(got))
		}
		beside := alice.Get(medium).HasHeader("ETag", "").HasHeader("Link", first.Header.Get("Link")).HasHeader("Cache-Control", "private, no-cache")
		if beside.Status != 200 || beside.Body != first.Body {
			t.Errorf("status %d, %d bytes, want %d", beside.Status, len(beside.Body), len(first.Body))
		}
		for _, limit := range []int{5, len(want)} {
			var got [][]string
			for path := fmt.Sprintf("%s?limit=%d", servicetest.Plaza, limit); path != ""; {
				page := alice.Get(path)
				got = append(got, servicetest.Usernames(t, page.Body)...)
				path = ""
				if page.Header.Get("Link") != "" {
					path = servicetest.NextPage(t, s, page).RequestURI()
				}
			}
			if !servicetest.Equal(got, want) {
				t.Errorf("limit %d: the pages together differ: %d events", limit, len(got))
			}
		}
		// Another user has a part of their own.
		if s.SignIn("bob").Get(medium).Header.Get("ETag") == "" {
			t.Error("another user's list goes without ETag, too")
		}
	})
}

// A client that reads slowly gets the whole list in small batches, whoever comes and goes meanwhile.
func TestListEventsSlowInSmallBatches(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.AddEvents(s, "plaza", 8000, 900, 2030, strings.Repeat("d", 5000))
		alice := s.SignIn("alice")
		want := servicetest.EventIDs(t, alice.Get(servicetest.Plaza+"?limit=900").Body)
		defer stall(t, s, alice, servicetest.Plaza, 8)()
		body := slowly(t, s, alice, servicetest.Plaza+"?limit=900", func() {
			s.Database.Exec("DELETE FROM events WHERE id = '00000000-0000-7000-8000-000000000890'")
			haveAppear(s, 100)
		})
		if i := slices.Index(want, "00000000-0000-7000-8000-000000000890"); !slices.Equal(servicetest.EventIDs(t, body), slices.Delete(want, i, i+1)) {
			t.Errorf("%d events, want %d", len(servicetest.EventIDs(t, body)), len(want)-1)
		}
	})
}

// A list that began in small batches goes on in usual ones, in the middle of an event, once there is memory again; it gives that back.
func TestListEventsWithMemoryAgain(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		want := servicetest.CrowdOf(t, s, longName, "plaza", 20, 500, streamed)
		medium := servicetest.Plaza + "?limit=2" // takes its part of the memory, too
		alice := s.SignIn("alice")
		for range 5 { // one more than the memory is for
			hangUp := stall(t, s, alice, servicetest.Plaza, 4)
			alice.Get(medium).HasHeader("ETag", "")
			body := slowly(t, s, alice, servicetest.Plaza, func() {
				hangUp()
				servicetest.Eventually(t, 20*time.Second, "the others have gone", func() bool {
					now, _ := servicetest.StalledResponses(t, s)
					return now <= 1
				})
			})
			if got := servicetest.Usernames(t, body); !servicetest.Equal(got, want) {
				t.Fatalf("the list differs: %d events, %d bytes", len(got), len(body))
			}
		}
		if alice.Get(medium).Header.Get("ETag") == "" {
			t.Error("some memory was not given back")
		}
	})
}

// A user for whom as many responses wait as may is refused large ones, and nobody else is.
func TestWaitingResponses(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.CrowdOf(t, s, longName, "plaza", streamed)
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
		servicetest.CrowdOf(t, s, longName, "plaza", streamed)
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
