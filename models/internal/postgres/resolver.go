package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// hostName remembers the addresses of a host's name. While the resolver fails or does not respond, the host
// keeps the addresses that it had: a resolver that is away must not take a healthy database with it.
type hostName struct {
	// timeout bounds one lookup.
	timeout time.Duration

	mu    sync.Mutex
	known []string
	// failing means that the resolver failed or did not respond in time. Attempts that know addresses then do
	// not wait for it.
	failing bool
	running *lookup // nil when there is none
}

// lookup is a lookup on its way. All attempts that need the name meanwhile wait for the same one.
type lookup struct {
	done      chan struct{} // closed at the end
	addresses []string
	err       error
}

// maxLookup is how long an attempt to connect waits for the resolver if it already knows addresses.
const maxLookup = 100 * time.Millisecond

// resolve returns the addresses. If the resolver says that the name no longer exists, it returns that error,
// although addresses are known.
func (n *hostName) resolve(ctx context.Context, lookUp pgconn.LookupFunc, name string) ([]string, error) {
	n.mu.Lock()
	if n.running == nil {
		n.running = n.begin(lookUp, name)
	}
	l, known, wait := n.running, n.known, n.timeout
	switch {
	case known != nil && n.failing:
		wait = 0
	case known != nil:
		wait = maxLookup
	}
	n.mu.Unlock()
	err := fmt.Errorf("lookup %s: %w", name, context.DeadlineExceeded)
	select {
	case <-l.done:
		if l.err == nil || isNoName(l.err) {
			return l.addresses, l.err
		}
		err = l.err
	case <-time.After(wait):
	case <-ctx.Done():
	}
	n.mu.Lock()
	n.failing = n.running == l || l.err != nil // the lookup may have ended at this very moment
	n.mu.Unlock()
	if known == nil {
		return nil, err
	}
	return known, nil
}

// begin starts a lookup. It may take longer than the attempt to connect that needs it, and then serves the next
// one. The caller holds n.mu.
func (n *hostName) begin(lookUp pgconn.LookupFunc, name string) *lookup {
	l := &lookup{done: make(chan struct{})}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
		defer cancel()
		l.addresses, l.err = lookUp(ctx, name)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.running = nil; l.err == nil {
			n.known, n.failing = l.addresses, false
		}
		close(l.done)
	}()
	return l
}

// isNoName reports whether the resolver said that there is no such name.
func isNoName(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}
