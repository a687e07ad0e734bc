package events

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

const boatTrip = `{"name":"Boat trip","description":"Bring a coat.","scheduledAt":"` + servicetest.When + `"}`

// withKey sends a line of the header for each key.
func withKey(keys ...string) servicetest.RequestOption {
	return func(r *http.Request) { r.Header["Idempotency-Key"] = keys }
}

// keyed creates the boat trip with a key and returns its id.
func keyed(c *servicetest.Client, path, body, key string) string {
	return c.Post(path, body, withKey(key)).Is(200, servicetest.Success).HasHeader("Idempotency-Key", "accepted").Header.Get("Event-Id")
}

// A repeat is answered like the first request and changes nothing, whatever has become of the event meanwhile.
func TestIdempotencyKey(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := keyed(alice, servicetest.Plaza, boatTrip, "k")
		list := alice.Get(servicetest.Plaza)
		same := func(c *servicetest.Client, body string) {
			t.Helper()
			s.Clock.Advance(time.Second)
			servicetest.Is(t, keyed(c, servicetest.Plaza, body, "k"), id, "the event of the repeat")
		}
		unchanged := func() {
			t.Helper()
			alice.Get(servicetest.Plaza).Is(200, list.Body).HasHeader("ETag", list.Header.Get("ETag"))
		}
		same(alice, boatTrip)
		unchanged()
		same(alice, ` { "scheduledAt": "2030-01-02T04:04:05.0009+01:00", "more": [1], "description": "Bring\u0020a coat.", "name": "Boat trip" }`) // equal values
		same(alice.On(s.NewInstance()), boatTrip)
		same(s.SignIn("alice"), boatTrip) // another session
		unchanged()

		// What the operator and the user do to the event stays.
		name := "Boat race"
		servicetest.Must(s.Store.EditEvent(t.Context(), idOf(t, id), models.EventEdit{Name: &name}))(t)
		alice.Delete("/api/event/"+id).Is(200, servicetest.Success)
		list = alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, name, "Bring a coat.", servicetest.When)))
		same(alice, boatTrip)
		servicetest.Must(s.Store.RenameUser(t.Context(), models.Who{Username: "alice"}, "anna"))(t)
		same(alice, boatTrip)
		unchanged()

		// Another request with the key is refused: another world, or any other value.
		for _, other := range []string{
			strings.Replace(boatTrip, "Boat trip", name, 1), strings.Replace(boatTrip, "coat.", "coat", 1), strings.Replace(boatTrip, "05.000Z", "05.001Z", 1),
		} {
			alice.Post(servicetest.Plaza, other, withKey("k")).IsError(409, "idempotency_conflict").HasHeader("Event-Id", "").HasHeader("Idempotency-Key", "")
		}
		alice.Post("/api/event/elsewhere", boatTrip, withKey("k")).IsError(409, "idempotency_conflict")
		unchanged()

		// Another key, another user, or none is another event; so is the key of an event that was removed.
		ids := map[string]bool{id: true}
		for _, other := range []string{
			keyed(alice, servicetest.Plaza, boatTrip, "K"), keyed(bob, servicetest.Plaza, boatTrip, "k"), alice.Create("plaza", "Boat trip", servicetest.When),
		} {
			ids[other] = true
		}
		servicetest.Must(s.Store.RemoveEvent(t.Context(), idOf(t, id)))(t)
		servicetest.Is(t, keyed(alice, "/api/event/elsewhere", boatTrip, "k"), id, "after the removal")
		if n := strings.Count(alice.Get(servicetest.Plaza).Body, `"scheduledAt"`); n != 3 || len(ids) != 4 {
			t.Errorf("%d events, ids %v", n, ids)
		}

		// Whoever is signed out learns nothing.
		servicetest.Must(s.Store.RevokeAll(t.Context()))(t)
		bob.Post(servicetest.Plaza, boatTrip, withKey("k")).IsError(401, "invalid_token")
		bob.Post("/api/event/elsewhere", boatTrip, withKey("k")).IsError(401, "invalid_token")
	})
}

func idOf(t *testing.T, text string) models.ID {
	t.Helper()
	return servicetest.Must(models.ParseID(text))(t)
}

// A key is 1 to 255 visible ASCII characters on one line, and is taken as it stands.
func TestIdempotencyKeyForms(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		ids := make(map[string]string)
		var visible strings.Builder
		for c := '!'; c <= '~'; c++ {
			visible.WriteRune(c)
		}
		for _, key := range []string{"k", `"k"`, "K", "k,k", "%6b", "k%", "k;a=b", "{}", "0", visible.String(), strings.Repeat("k", 255)} {
			id := keyed(alice, servicetest.Plaza, boatTrip, key)
			servicetest.Is(t, ids[id], "", "the former key of the event of %q", key)
			servicetest.Is(t, keyed(alice, servicetest.Plaza, boatTrip, key), id, "the event of the repeated %q", key)
			if id[14] != '8' || !strings.Contains("89ab", id[19:20]) {
				t.Errorf("%s is no UUIDv8", id)
			}
			ids[id] = key
		}
		for _, key := range []string{"", " ", "k k", "k\tk", "ké", strings.Repeat("k", 256)} {
			alice.Post(servicetest.Plaza, boatTrip, withKey(key)).IsError(400, "validation_failed", "Idempotency-Key")
		}
		alice.Post(servicetest.Plaza, boatTrip, withKey("k", "k")).IsError(400, "validation_failed", "Idempotency-Key")
		alice.Post(servicetest.Plaza, `{"name":""}`, withKey("")).IsError(400, "validation_failed", "Idempotency-Key", "description", "name", "scheduledAt")
		servicetest.Is(t, s.Database.Count("events"), len(ids), "events")
		if id := alice.Post(servicetest.Plaza, boatTrip).Is(200, servicetest.Success).HasHeader("Idempotency-Key", "").Header.Get("Event-Id"); id[14] != '7' {
			t.Errorf("%s is no UUIDv7", id)
		}
		// Other operations do not look at it.
		alice.Get(servicetest.Plaza, withKey("")).HasHeader("Idempotency-Key", "")
	})
}

// Of any number of repeats at the same time one creates the event, and the others are answered like it; another request with
// the key is refused.
func TestIdempotencyKeyRaces(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		at := []*servicetest.Client{alice, alice.On(s.NewInstance())}
		other := strings.Replace(boatTrip, "Boat", "Train", 1)
		for round := range 5 {
			var mu sync.Mutex
			answers := make(map[string]int)
			servicetest.AtOnce(100, func(i int) {
				body := boatTrip
				if i%10 == 0 {
					body = other
				}
				res := at[i%2].Post(servicetest.Plaza, body, withKey(fmt.Sprint("key-", round)))
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(i%10 == 0, " ", res.Status, " ", res.Header.Get("Event-Id"))]++
			})
			if len(answers) != 2 {
				t.Errorf("round %d: %v", round, answers)
			}
			servicetest.Is(t, s.Database.Count("events"), round+1, "events after round %d", round)
			servicetest.Is(t, s.Database.Count("rsvps"), round+1, "RSVPs after round %d", round)
		}
	})
}
