package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/singleflight"

	"worldevents/models/internal/dberr"
)

// Connector makes connections (driver.Connector) to that host of the URL which takes writes. It stays with the
// host that it found last, and searches for another when that one refuses or is suspect. A host that is gone
// must cost neither a caller nor the pool their time.
type Connector struct {
	server *Server
	hosts  []*host
	// stop cancels ctx, which ends attempts, searches and the look for suspects.
	ctx  context.Context
	stop context.CancelFunc

	mu             sync.Mutex
	user, password string // those of the last connection

	// current is nil until a search has found a host, and again after that host has refused.
	current  *host
	searches singleflight.Group     // runs one search at a time
	heard    lastHeard              // from the current host
	full     error                  // the server's answer while it takes no more connections
	retry    time.Time              // when the server is asked again
	tracked  map[*activity]struct{} // all connections and attempts, if there are several hosts
}

// maxTries is how often one call tries to connect, each time to the host that is current then.
const maxTries = 4

// fullInterval is how long nobody asks for a connection after the server has refused one more (SQLSTATE 53300).
const fullInterval = 100 * time.Millisecond

// NewConnector prepares connections. If hear is not nil, they call it with each notification.
func (s *Server) NewConnector(hear func(*pgconn.Notification)) (*Connector, error) {
	config, err := s.parse()
	if err != nil {
		return nil, err
	}
	if hear != nil {
		config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { hear(n) }
	}
	c := &Connector{server: s, user: config.User, password: config.Password, tracked: make(map[*activity]struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	hosts := HostsOf(config)
	for _, host := range hosts {
		c.hosts = append(c.hosts, c.newHost(host, len(hosts) > 1))
	}
	if len(hosts) > 1 {
		go c.findSuspects()
	}
	return c, nil
}

// IsStale reports whether the user or the password was replaced after a connection was made.
func (c *Connector) IsStale(conn *pgconn.PgConn) bool {
	made, _ := conn.CustomData()[generationKey].(uint64)
	return made != c.server.generation.Load()
}

// credentials are those of the next connection. The URL may name a file for the password, which is read anew
// each time. While somebody replaces that file there may be no password for a moment; then the former one
// serves.
func (c *Connector) credentials() (user, password string) {
	config, err := c.server.parse()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && (config.Password != "" || config.User != c.user) {
		c.user, c.password = config.User, config.Password
	}
	return c.user, c.password
}

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// Close implements io.Closer. The pool calls it.
func (c *Connector) Close() error {
	c.stop()
	return nil
}

// Connect implements driver.Connector. It returns ErrBusy while the server takes no more connections, and
// otherwise ErrUnreachable: nothing was asked of the database, so the caller may try again.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.refusal(); err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx)
	switch {
	case isFull(err):
		c.refuse(err)
	case err != nil && !errors.Is(err, context.Canceled):
		err = fmt.Errorf("%w: %w", dberr.ErrUnreachable, err)
	}
	return conn, err
}

// isFull reports whether a server takes no more connections.
func isFull(err error) bool { return err != nil && errors.Is(dberr.Classify(err), dberr.ErrFull) }

// refuse keeps everybody from asking for a connection for a while. Each attempt would cost the server a
// process, which it has too many of.
func (c *Connector) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full, c.retry = err, time.Now().Add(fullInterval)
}

// refusal returns the server's answer for as long as nobody is to ask again.
func (c *Connector) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full != nil && time.Now().After(c.retry) {
		c.full = nil
	}
	return c.full
}

func (c *Connector) connect(ctx context.Context) (driver.Conn, error) {
	if len(c.hosts) == 1 {
		return c.hosts[0].connect(ctx)
	}
	for tries := 1; ; tries++ {
		h, err := c.find(ctx)
		if err != nil {
			return nil, err
		}
		attempt, cancel := context.WithCancel(ctx)
		a := c.follow(h, cancel)
		a.sent.Add(1) // it waits for a response from the beginning
		conn, err := h.connect(attempt)
		c.unfollow(a)
		cancel()
		if err == nil || ctx.Err() != nil || isFull(err) {
			return conn, err
		}
		if c.leave(h); tries == maxTries {
			return nil, err
		}
	}
}

// find returns the current host, or the one that a search finds before ctx ends. All calls that come meanwhile
// share one search.
func (c *Connector) find(ctx context.Context) (*host, error) {
	c.mu.Lock()
	h := c.current
	c.mu.Unlock()
	if h != nil {
		return h, nil
	}
	select {
	case search := <-c.search():
		return search.Val.(*host), search.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave makes the next call search, because h has refused.
func (c *Connector) leave(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == h {
		c.current = nil
	}
}

// switchTo makes h the current host, and ends every connection and attempt elsewhere: what waits there would
// wait until its time is over. The caller holds c.mu.
func (c *Connector) switchTo(h *host) {
	if c.current == h {
		return
	}
	c.current = h
	for a := range c.tracked {
		if a.host != h {
			delete(c.tracked, a)
			a.ended.Store(true)
			a.end()
		}
	}
}

// reset is called before each use of a pooled connection except the first. With driver.ErrBadConn the
// connection leaves the pool.
func (c *Connector) reset(ctx context.Context, conn *pgx.Conn) error {
	if a := activityOf(conn); a != nil && a.ended.Load() {
		return driver.ErrBadConn
	}
	if c.IsStale(conn.PgConn()) {
		return driver.ErrBadConn
	}
	return c.server.checks.check(ctx, conn)
}

// WhileFull calls fn again while it returns ErrFull, until ctx ends or a time has come; the zero time never
// comes. A connection of the pool may come free meanwhile, or another client may leave.
func WhileFull(ctx context.Context, giveUp time.Time, fn func() error) error {
	for {
		err := fn()
		if !errors.Is(err, dberr.ErrFull) || !giveUp.IsZero() && !time.Now().Before(giveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(fullInterval / 10):
		}
	}
}
