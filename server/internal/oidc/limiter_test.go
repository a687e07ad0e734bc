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

const maxWait = 10 * time.Second

// crowd has n sign-ins of each client take a place and keep it until release is closed. It counts in got who has one.
type crowd struct {
	limiter *limiter
	release chan struct{}
	group   sync.WaitGroup

	mu   sync.Mutex
	got  map[string]int
	busy map[string]int
}

func newCrowd() *crowd {
	return &crowd{limiter: newLimiter(maxWait), release: make(chan struct{}), got: make(map[string]int), busy: make(map[string]int)}
}

func (c *crowd) send(client string, n int) {
	for range n {
		c.group.Go(func() {
			release, err := c.limiter.acquire(context.Background(), client)
			c.mu.Lock()
			if err != nil {
				c.busy[client]++
			} else {
				c.got[client]++
			}
			c.mu.Unlock()
			if err == nil {
				<-c.release
				release()
			}
		})
	}
	synctest.Wait()
}

// end releases all places, and checks that nothing is left of anybody.
func (c *crowd) end(t *testing.T) {
	t.Helper()
	close(c.release)
	c.group.Wait()
	if c.limiter.inside != 0 || len(c.limiter.clients) != 0 || !c.limiter.free.TryAcquire(maxConcurrent) {
		t.Errorf("%d inside, %d clients", c.limiter.inside, len(c.limiter.clients))
	}
}

func TestPlacesOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.send("a", 200)
		if c.got["a"] != maxPerClient {
			t.Errorf("%d places", c.got["a"])
		}
		if inside := 200 - c.busy["a"]; inside < 100 || inside > maxInside/2 {
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

// Clients who fill all places leave room to wait, and the next place that is free goes to who has none.
func TestPlacesOfManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		for i := range 20 {
			c.send(fmt.Sprint("attacker ", i), 100)
		}
		all := 0
		for _, n := range c.got {
			all += n
		}
		if all != maxConcurrent {
			t.Errorf("%d places", all)
		}
		c.send("b", minInside)
		if c.got["b"] != 0 || c.busy["b"] != 0 {
			t.Errorf("%d places, %d refused", c.got["b"], c.busy["b"])
		}
		for range 25 { // no more turns than there are other clients
			c.release <- struct{}{}
			synctest.Wait()
		}
		if c.got["b"] == 0 {
			t.Error("others came first")
		}
		c.end(t)
	})
}

// Sign-ins that waited in vain have nothing of their client's share.
func TestPlacesInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		for i := range maxConcurrent / maxPerClient {
			c.send(fmt.Sprint("attacker ", i), maxPerClient)
		}
		for range 2 * maxPerClient {
			c.send("b", 1)
			time.Sleep(maxWait * 2 / 3) // b is never gone
		}
		c.release <- struct{}{}
		synctest.Wait()
		if c.got["b"] != 1 {
			t.Errorf("%d places, %d refused", c.got["b"], c.busy["b"])
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
			_, err := c.limiter.acquire(ctx, "a")
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
