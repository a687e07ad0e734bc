package events

import (
	"testing"

	"worldevents/tests/servicetest"
)

// A user who writes without end is told so, over all operations that write and all of their sessions; nobody else is, and
// the user still reads.
func TestWriteRate(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := bob.Create("plaza", "n", servicetest.When)
		alice.Post("/api/event/join/nothing", "").IsError(404, "event_not_found") // what fails counts, too
		bob.Post("/api/event/join/"+id, "").IsError(429, "rate_limited")
		again := s.SignIn("alice")
		for _, c := range []*servicetest.Client{alice, again} {
			c.Post("/api/event/join/"+id, "").IsError(429, "rate_limited").HasHeader("Retry-After", "1")
			c.Delete("/api/event/"+id).IsError(429, "rate_limited")
			c.Post(servicetest.Plaza, servicetest.EventBody).IsError(429, "rate_limited")
			c.Post(servicetest.Plaza, `{"name":""}`).IsError(429, "rate_limited") // before the body is looked at
			c.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
		}
		again.Get(servicetest.Plaza).Has(200)
		s.SignIn("carol").Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		s.Client().Post("/api/event/join/"+id, "").IsError(401, "no_token")
	}, func(o *servicetest.Options) { o.WriteRate = 0.001 }) // one at once, and the next after a quarter of an hour
}
