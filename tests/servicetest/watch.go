package servicetest

import (
	"errors"
	"testing"
	"time"
)

// Waits are the requests that wait for news of a list.
func Waits(t *testing.T, s *Service) int {
	return int(Metric(t, s, "worldevents_list_watches"))
}

// WatcherOf signs alice in, who creates an event of the world plaza and has its list.
func WatcherOf(s *Service) (alice *Client, id, tag string) {
	alice = s.SignIn("alice")
	id = alice.Create("plaza", "a", When)
	return alice, id, alice.Get(Plaza).Header.Get("ETag")
}

// Arrived is a response with the time that it Took.
type Arrived struct {
	*Response
	Took time.Duration
}

// Await asks for a list that the client has, and returns once the request waits. The response comes later. Who looks at the list again, or
// does not read it, waits no longer, but holds their place: so one place more must be held, and no more of those who hold one be busy than before.
func Await(t *testing.T, s *Service, c *Client, path, tag string, with ...RequestOption) <-chan Arrived {
	t.Helper()
	held := func() int { return int(Metric(t, s, `worldevents_held{of="list_watches"}`)) }
	var before, busy int
	poll(200*time.Millisecond, func() error { // for a look to end
		before = held()
		if busy = max(0, before-Waits(t, s)); busy > 0 {
			return errors.New("busy")
		}
		return nil
	})
	res := make(chan Arrived, 1)
	begin := time.Now()
	go func() {
		r := c.Get(path, append(with, IfNoneMatch(tag))...)
		res <- Arrived{r, time.Since(begin)}
	}()
	Eventually(t, "the request waits", func() bool {
		now := held()
		return now > before && Waits(t, s) >= now-busy
	})
	return res
}

// Come returns the response, which must come at once.
func Come(t *testing.T, res <-chan Arrived) Arrived {
	t.Helper()
	select {
	case r := <-res:
		return r
	case <-time.After(Soon):
		t.Fatal("no response")
		return Arrived{}
	}
}
