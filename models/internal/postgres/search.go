package postgres

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// headStart is how long a search waits for the current host when another one already takes writes: changing
	// hosts costs all connections.
	headStart = 150 * time.Millisecond
	// retryInterval is how soon a search asks a host again: a standby that refuses may be about to be promoted.
	retryInterval = 50 * time.Millisecond
)

// search looks for the host that takes writes, and makes it the current one. All who call it before it ends
// share one search, and get a *host with the errors of all hosts if none was found.
func (c *Connector) search() <-chan singleflight.Result {
	return c.searches.DoChan("", func() (any, error) {
		c.mu.Lock()
		current := c.current
		c.mu.Unlock()
		found, err := c.askHosts(current)
		c.mu.Lock()
		defer c.mu.Unlock()
		if found != nil {
			c.switchTo(found)
		}
		return found, err
	})
}

// askHosts asks all hosts at once and returns the first that takes writes, but prefers current. As long as some
// host has not responded it asks those that refused again. It fails once every host has refused, or when the
// time is over.
func (c *Connector) askHosts(current *host) (*host, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.server.timeout)
	defer cancel()
	type result struct {
		*host
		err error
	}
	results := make(chan result) // the first attempt of each host, and the one that succeeds
	for _, h := range c.hosts {
		go func() {
			for first := true; ctx.Err() == nil; first = false {
				conn, err := h.connect(ctx)
				if err == nil {
					defer conn.Close()
				}
				if err == nil || first {
					select {
					case results <- result{h, err}:
					case <-ctx.Done():
					}
				}
				if err == nil {
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(retryInterval):
				}
			}
		}()
	}
	var waitForCurrent <-chan time.Time
	if current != nil {
		waitForCurrent = time.After(headStart)
	}
	var found *host
	var errs []error
	for {
		select {
		case r := <-results:
			switch {
			case r.err == nil && (r.host == current || waitForCurrent == nil):
				return r.host, nil
			case r.err == nil && found == nil:
				found = r.host
			case r.err != nil:
				errs = append(errs, r.err)
			}
			if r.host == current && found != nil {
				return found, nil
			}
			if r.host == current {
				waitForCurrent = nil
			}
		case <-waitForCurrent:
			waitForCurrent = nil
			if found != nil {
				return found, nil
			}
		case <-ctx.Done():
			return nil, errors.Join(append(errs, ctx.Err())...)
		}
		if len(errs) == len(c.hosts) {
			return nil, errors.Join(errs...)
		}
	}
}
