package eventlist

import (
	"context"
	"maps"
	"slices"
	"sync"

	"worldevents/models"
)

// maxCallers is how many callers one statement looks up.
const maxCallers = 1000

// signedOut returns which of the callers are not active.
func (l *Lists) signedOut(ctx context.Context, callers []models.Caller) (map[models.Caller]bool, error) {
	if len(callers) <= maxCallers {
		return l.store.SignedOut(ctx, callers)
	}
	all := make(map[models.Caller]bool)
	for some := range slices.Chunk(callers, maxCallers) {
		out, err := l.store.SignedOut(ctx, some)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, out)
	}
	return all, nil
}

// sessionChecker looks up the sessions of those whose wait is over, all together who come while it does so.
type sessionChecker struct {
	lists   *Lists
	mu      sync.Mutex
	next    *sessionCheck // to run, nil while nobody waits
	running bool
}

type sessionCheck struct {
	callers []models.Caller
	done    chan struct{}
	out     map[models.Caller]bool // who is not active
	err     error
}

// check returns models.ErrSignedOut for a caller who is not active, and the errors of looking that up.
func (c *sessionChecker) check(caller models.Caller) error {
	c.mu.Lock()
	if c.next == nil {
		c.next = &sessionCheck{done: make(chan struct{})}
	}
	check := c.next
	check.callers = append(check.callers, caller)
	if !c.running {
		c.running = true
		go c.run()
	}
	c.mu.Unlock()
	<-check.done
	if check.err == nil && check.out[caller] {
		return models.ErrSignedOut
	}
	return check.err
}

func (c *sessionChecker) run() {
	for {
		c.mu.Lock()
		check := c.next
		c.next = nil
		if check == nil {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		check.out, check.err = c.lists.signedOut(context.Background(), check.callers)
		close(check.done)
	}
}
