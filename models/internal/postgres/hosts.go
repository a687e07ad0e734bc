package postgres

import (
	"context"
	"database/sql/driver"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// hosts are those of the URL. Connections go to the one that takes writes, the current one: that which a search
// found last. Another search begins when it refuses or is suspect. A host that is gone must cost neither a
// caller nor the pool their time.
type hosts struct {
	all     []*host
	timeout time.Duration // of an attempt to connect to one host, and of waiting for a search
	// offer takes the connection by which a search has found its host.
	offer func(driver.Conn)
	// stop cancels ctx, which ends attempts, searches and the look for suspects.
	ctx  context.Context
	stop context.CancelFunc

	mu sync.Mutex
	// current is nil until a search has found a host. refused means that it has refused since.
	current *host
	refused bool
	running *search                // nil if there is none
	heard   lastHeard              // from the current host
	errs    map[*host]error        // the last answers that a search got
	tracked map[*activity]struct{} // all connections and attempts, if there are several hosts
}

// maxTries is how often one attempt tries to connect, each time to the host that is current then.
const maxTries = 4

func (s *Server) newHosts(config *pgx.ConnConfig) *hosts {
	hs := &hosts{timeout: s.timeout, offer: s.attempts.offer, tracked: make(map[*activity]struct{}), errs: make(map[*host]error)}
	hs.ctx, hs.stop = context.WithCancel(context.Background())
	hosts := HostsOf(config)
	for _, host := range hosts {
		hs.all = append(hs.all, s.newHost(hs, host, len(hosts) > 1))
	}
	if len(hosts) > 1 {
		go hs.findSuspects()
	}
	return hs
}

// connect makes a connection to the host that takes writes.
func (hs *hosts) connect() (driver.Conn, error) {
	if len(hs.all) == 1 {
		return hs.all[0].connect(hs.ctx)
	}
	for tries := 1; ; tries++ {
		h, err := hs.find()
		if err != nil {
			return nil, err
		}
		conn, err := hs.connectTo(h)
		if err == nil || hs.ctx.Err() != nil || isFull(err) || isTimeout(err) {
			return conn, err
		}
		if hs.leave(h); tries == maxTries {
			return nil, err
		}
	}
}

// connectTo makes a connection to h, unless another host is or becomes the current one meanwhile.
func (hs *hosts) connectTo(h *host) (driver.Conn, error) {
	ctx, cancel := context.WithCancel(hs.ctx)
	defer cancel()
	a := hs.follow(h, cancel)
	defer hs.unfollow(a)
	a.sent.Add(1) // it waits for a response from the beginning
	hs.mu.Lock()
	moved := hs.current != h
	hs.mu.Unlock()
	if moved {
		return nil, context.Canceled
	}
	return h.connect(ctx)
}

// find returns the current host, or the one that a search finds in time.
func (hs *hosts) find() (*host, error) {
	hs.mu.Lock()
	h, refused := hs.current, hs.refused
	hs.mu.Unlock()
	if h != nil && !refused {
		return h, nil
	}
	search := hs.search()
	select {
	case <-search.over:
		return search.host, search.err
	case <-time.After(hs.timeout):
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return nil, hs.noHost(context.DeadlineExceeded)
}

// leave makes the next attempt search, because h has refused. h stays the current host if it answers the search:
// changing hosts costs all connections.
func (hs *hosts) leave(h *host) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.current == h {
		hs.refused = true
	}
}

// switchTo makes h the current host, and ends every connection and attempt elsewhere: what waits there would
// wait until its time is over. The caller holds hs.mu.
func (hs *hosts) switchTo(h *host) {
	if hs.refused = false; hs.current == h {
		return
	}
	hs.current = h
	for a := range hs.tracked {
		if a.host != h {
			delete(hs.tracked, a)
			a.ended.Store(true)
			a.end()
		}
	}
}
