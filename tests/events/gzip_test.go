package events

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// plainly asks for a list that is not compressed, and is not one of those that servicetest asks for as gzip.
var plainly = servicetest.Accepting("identity")

// isGzip fails the test unless the response is this list as gzip.
func isGzip(t *testing.T, res *servicetest.Response, list string) {
	t.Helper()
	res.HasHeader("Content-Encoding", "gzip").HasHeader("Content-Length", strconv.Itoa(len(res.Body)))
	res.HasHeader("Content-Type", "application/json").HasHeader("Vary", "Cookie, Origin, Accept-Encoding")
	servicetest.Is(t, servicetest.Content(t, res.Has(200)), list, "the list")
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
			servicetest.Is(t, len(servicetest.Content(t, res)), size, "bytes")
			res.HasHeader("Content-Encoding", []string{"", "gzip"}[i]).HasHeader("Vary", "Cookie, Origin, Accept-Encoding")
		}
	})
}
