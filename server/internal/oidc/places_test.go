package oidc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowd has n sign-ins of each client take a place and keep it until release is closed. It counts in got who has one.
type crowd struct {
	provider *Provider
	release  chan struct{}
	group    sync.WaitGroup

	mu   sync.Mutex
	got  map[string]int
	busy map[string]int
}

const maxWait = 10 * time.Second

func newCrowd() *crowd {
	provider := &Provider{config: Config{Timeout: maxWait / 2}, places: newPlaces()}
	return &crowd{provider: provider, release: make(chan struct{}), got: make(map[string]int), busy: make(map[string]int)}
}

func (c *crowd) send(client string, n int) {
	for range n {
		c.group.Go(func() {
			leave, err := c.provider.enter(context.Background(), client)
			c.mu.Lock()
			if err != nil {
				c.busy[client]++
			} else {
				c.got[client]++
			}
			c.mu.Unlock()
			if err == nil {
				<-c.release
				leave()
			}
		})
	}
	synctest.Wait()
}

// end releases all places, and checks that none is held.
func (c *crowd) end(t *testing.T) {
	t.Helper()
	close(c.release)
	c.group.Wait()
	if n := c.provider.places.Held(); n != 0 {
		t.Errorf("%d are held", n)
	}
}

// A client alone has a quarter of the places, and a hundred of its sign-ins may wait.
func TestPlacesOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.send("a", 200)
		if c.got["a"] != maxPerClient {
			t.Errorf("%d places", c.got["a"])
		}
		if inside := 200 - c.busy["a"]; inside < 100 || inside > 150 {
			t.Errorf("%d inside", inside)
		}
		c.send("b", 1)
		if c.got["b"] != 1 {
			t.Error("another client got no place")
		}
		time.Sleep(maxWait)
		synctest.Wait()
		if c.busy["a"] != 200-maxPerClient {
			t.Errorf("%d gave up", c.busy["a"])
		}
		c.end(t)
	})
}

// Clients who fill all places leave room to wait, and one of the next places goes to who has none.
func TestPlacesOfManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		const attackers = 20
		for i := range attackers {
			c.send(fmt.Sprint("attacker ", i), 100)
		}
		all := 0
		for _, n := range c.got {
			all += n
		}
		if all != maxConcurrent {
			t.Errorf("%d places", all)
		}
		c.send("b", 4)
		if c.got["b"] != 0 || c.busy["b"] != 0 {
			t.Errorf("%d places, %d refused", c.got["b"], c.busy["b"])
		}
		for range attackers + 1 {
			c.release <- struct{}{}
			synctest.Wait()
		}
		if c.got["b"] == 0 {
			t.Error("others came first")
		}
		c.end(t)
	})
}

// A browser that goes away leaves its place in the queue.
func TestPlacesLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.send("a", maxPerClient)
		ctx, cancel := context.WithCancel(context.Background())
		errc := make(chan error)
		go func() {
			_, err := c.provider.enter(ctx, "a")
			errc <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-errc; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c.end(t)
	})
}
