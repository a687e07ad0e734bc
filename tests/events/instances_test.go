package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// What another instance writes ends a wait, too: a join, a leave, and a create, in the page that is waited for or behind it.
func TestWaitForOtherInstance(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		other := s.NewInstance()
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "a", servicetest.When)
		far := alice.On(other)
		for i, write := range []func(){
			func() { bob.On(other).Post("/api/event/join/"+id, "").Is(200, servicetest.Success) },
			func() { bob.On(other).Delete("/api/event/"+id).Is(200, servicetest.Success) },
			func() { far.Create("plaza", "b", "2020-01-01T00:00:00Z") },
			func() { far.Create("plaza", "c", "2040-01-01T00:00:00Z") }, // a Link more
			func() { s.Database.Exec("DELETE FROM events WHERE world_id = 'plaza' AND name = 'c'") },
			func() { s.Database.Exec("UPDATE users SET username = 'anna' WHERE username = 'alice'") },
		} {
			path := servicetest.Plaza + "?limit=2"
			tag := alice.Get(path).Header.Get("ETag")
			res := servicetest.Await(t, s, alice, path+"&wait=50", tag)
			s.Clock.Advance(time.Second)
			write()
			r := servicetest.Come(t, res)
			plain := alice.Get(path)
			r.Is(200, plain.Body).HasHeader("ETag", plain.Header.Get("ETag")).HasHeader("Link", plain.Header.Get("Link"))
			if r.Header.Get("ETag") == tag {
				t.Errorf("%d: the same list", i)
			}
		}
	})
}

// Only the list that is waited for counts: its span, its page, its world.
func TestWaitForOneList(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		var ids []string
		for i := range 4 {
			ids = append(ids, alice.Create("plaza", fmt.Sprint(i), fmt.Sprintf("20%d0-01-01T00:00:00Z", 3+i)))
		}
		first := alice.Get(servicetest.Plaza + "?limit=2")
		second := servicetest.NextPage(t, s, first).RequestURI()
		for _, test := range []struct {
			path string
			// Of the four events these are in the list.
			in [4]bool
		}{
			{servicetest.Plaza + "?limit=2", [4]bool{true, true, false, false}},
			{second, [4]bool{false, false, true, true}},
			{servicetest.Plaza + "?from=2040-01-01T00:00:00Z&to=2060-01-01T00:00:00Z", [4]bool{false, true, true, false}},
			{servicetest.Plaza + "?from=2035-01-01T00:00:00Z&limit=1", [4]bool{false, true, false, false}},
		} {
			for i, id := range ids {
				plain := alice.Get(test.path)
				res := servicetest.Await(t, s, alice, test.path+"&wait=50", plain.Header.Get("ETag"))
				bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
				if !test.in[i] {
					still(t, res)
					bob.Post("/api/event/join/"+ids[slices.Index(test.in[:], true)], "").Is(200, servicetest.Success)
				}
				servicetest.Come(t, res).Has(200).HasHeader("Link", alice.Get(test.path).Header.Get("Link"))
				for _, id := range ids {
					bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
				}
			}
		}
	})
}

// A list that becomes too long while a client waits is refused at once.
func TestWaitUntilTooLong(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", servicetest.When)
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		res := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag)
		servicetest.AddEvents(s, "plaza", 1, 1700, 2031, strings.Repeat("🎲", 5000)) // in one statement, so that nobody sees some of them
		servicetest.Come(t, res).IsError(400, "validation_failed", "limit")
	})
}
