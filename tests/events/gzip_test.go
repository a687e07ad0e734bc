package events

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// plainly asks for a list that is not compressed, and is not one of those that servicetest asks for as gzip.
var plainly = servicetest.Accepting("identity")

// create creates an event and returns its id, again when that is refused as too much at once.
func create(c *servicetest.Client, world, name, scheduledAt string) string {
	body := fmt.Sprintf(`{"name":%s,"description":"","scheduledAt":"%s"}`, servicetest.Quote(name), scheduledAt)
	res := c.Post("/api/event/"+world, body)
	return res.Is(200, servicetest.Success).Header.Get("Event-Id")
}

// isGzip fails the test unless the response is this list as gzip.
func isGzip(t *testing.T, res *servicetest.Response, list string) {
	t.Helper()
	res.HasHeader("Content-Encoding", "gzip").HasHeader("Content-Length", strconv.Itoa(len(res.Body)))
	res.HasHeader("Content-Type", "application/json").HasHeader("Vary", "Cookie, Origin, Accept-Encoding")
	if got := servicetest.Content(t, res); res.Status != 200 || got != list {
		t.Errorf("%d %.100q", res.Status, got)
	}
}

// Clients get the encoding that they accept, with the same ETag. Of the header internal/accept knows more.
func TestListEventsGzip(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		for i := range 40 {
			servicetest.AddEvent(s, "plaza", i, "n", "é\n")
		}
		for _, query := range []string{"", "?limit=20"} {
			whole := alice.Get(servicetest.Plaza+query, plainly)
			tag, link := whole.Header.Get("ETag"), whole.Header.Get("Link")
			wanted := [][]string{{"gzip"}, {"gzip, deflate, br, zstd"}, {"br;q=1.0", "X-GZIP ; q=0.5"}, {"*"}, {"gzip", "identity;q=0"}}
			for i, lines := range append(wanted, []string{""}, []string{"identity"}, []string{"br"}, []string{"gzip;q=0"}, []string{"*", "gzip;q=0"}, []string{"gzip;q=0.4, identity;q=0.5"},
				[]string{"gzip;q=yes"}, []string{"\xff;;q=,", "notgzip"}, []string{"identity;q=0"}) { // neither is accepted, and an error would help nobody
				res := alice.Get(servicetest.Plaza+query, servicetest.Accepting(lines...)).HasHeader("ETag", tag).HasHeader("Link", link)
				if i < len(wanted) {
					isGzip(t, res, whole.Body)
				} else {
					res.Is(200, whole.Body).HasHeader("Content-Encoding", "").HasHeader("Vary", "Cookie, Origin, Accept-Encoding")
				}
				// Either form is what the client has already.
				for range often {
					alice.Get(servicetest.Plaza+query, servicetest.Accepting(lines...), servicetest.IfNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag).
						HasHeader("Content-Encoding", "").HasHeader("Content-Length", "").HasHeader("Vary", "Cookie, Origin, Accept-Encoding")
				}
			}
			isGzip(t, alice.Get(servicetest.Plaza+query, servicetest.Accepting("gzip"), servicetest.IfNoneMatch(`W/"x"`)), whole.Body)
		}
		alice.Do("HEAD", servicetest.Plaza, "", servicetest.Accepting("gzip")).HasHeader("Content-Encoding", "").Is(405, "")
		alice.Get(servicetest.Plaza+"?limit=0", servicetest.Accepting("gzip")).IsError(400, "validation_failed", "limit").HasHeader("Content-Encoding", "")
		s.Client().Get(servicetest.Plaza, servicetest.Accepting("gzip")).IsError(401, "no_token").HasHeader("Content-Encoding", "")
	})
}

// Small lists are not compressed; a list is as soon as it is worth it.
func TestListEventsGzipBounds(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Get("/api/event/lobby", servicetest.Accepting("gzip")).Is(200, servicetest.List()).HasHeader("Content-Encoding", "")
		servicetest.AddEvent(s, "lobby", 0, "n", "d")
		one := len(alice.Get("/api/event/lobby", servicetest.Accepting("gzip")).HasHeader("Content-Encoding", "").Body)
		for i, size := range []int{1399, 1400} {
			world := fmt.Sprint("world", i)
			servicetest.AddEvent(s, world, 1+i, "n", strings.Repeat("d", 1+size-one))
			res := alice.Get("/api/event/"+world, servicetest.Accepting("gzip"))
			if got := len(servicetest.Content(t, res)); got != size {
				t.Fatalf("%d bytes, want %d", got, size)
			}
			res.HasHeader("Content-Encoding", []string{"", "gzip"}[i]).HasHeader("Vary", "Cookie, Origin, Accept-Encoding")
		}
	})
}

// Many clients who ask for several lists in both forms at once, while these grow, get lists that have existed.
func TestListEventsGzipTogether(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const worlds, clients, rounds = 3, 24, 6
		alice := s.SignIn("alice")
		world := func(n int) string { return "/api/event/world" + strconv.Itoa(n) }
		for w := range worlds {
			servicetest.AddEvents(s, "world"+strconv.Itoa(w), 8000+w, 60, 2031, strings.Repeat(strconv.Itoa(w), 40))
		}
		names := []string{}
		for i := range rounds {
			names = append(names, fmt.Sprint("round ", i))
		}
		servicetest.AtOnce(clients, func(client int) {
			for round := range rounds {
				w := client % worlds
				if client < worlds { // one client of each world adds events, each later than the last
					create(alice, "world"+strconv.Itoa(w), names[round], fmt.Sprintf("%d-01-01T00:00:00Z", 2040+round))
				}
				coding := []string{"gzip", "identity"}[client/worlds%2]
				res := alice.Get(world(w), servicetest.Accepting(coding))
				text := servicetest.Content(t, res)
				added := servicetest.Members(t, text, "name")[60:]
				if !slices.Equal(added, names[:len(added)]) || client < worlds && len(added) != round+1 {
					t.Errorf("%s: added %q", res.Header.Get("Content-Encoding"), added)
				}
				if n := strings.Count(text, `"description":"`+strings.Repeat(strconv.Itoa(w), 40)+`"`); n != 60 {
					t.Errorf("%s: %d descriptions of world %d", res.Header.Get("Content-Encoding"), n, w)
				}
			}
		})
	})
}
