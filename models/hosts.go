package models

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// connector makes the connections of a pool (driver.Connector) to that of the URL's hosts which takes writes. It stays
// with the host that it found last, and looks for another one when that refuses, or when somebody has waited for it too
// long: a host that is silent must cost neither a caller nor the pool their time.
type connector struct {
	hosts []*host
	// timeout bounds one attempt to connect, and one search.
	timeout time.Duration
	health  *health
	// stop ends attempts, searches and the watch; ctx is what it ends.
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	current *host                  // nil until a search has found one, and after it refused
	running *search                // nil when there is none
	rested  time.Time              // when the next search may begin that only a slow response calls for
	crowded error                  // what the server said last, if it takes no more connections
	retry   time.Time              // when it is asked again
	tracked map[*activity]struct{} // of all connections and attempts, if there are several hosts
}

const (
	// watchInterval is how often connections are looked at that wait for a response.
	watchInterval = 50 * time.Millisecond
	// patience is how many intervals one waits before its host may be silent.
	patience = 4
	// grace is how long a search waits for the current host, although another one takes writes, too.
	grace = 150 * time.Millisecond
	// retryInterval is how soon a search asks a host again, such as a standby that may be about to be promoted.
	retryInterval = 50 * time.Millisecond
	// restInterval is for how long the host of a slow statement counts as alive once it has been asked.
	restInterval = time.Second
	// crowdedInterval is for how long nobody asks for a connection once the server has refused one more.
	crowdedInterval = 100 * time.Millisecond
)

// newConnector prepares connections as parse says, which is called for each of them: credentials may have changed. An
// attempt to connect takes no longer than timeout.
func newConnector(parse func() (*pgx.ConnConfig, error), timeout time.Duration, health *health) (*connector, error) {
	config, err := parse()
	if err != nil {
		return nil, err
	}
	c := &connector{timeout: timeout, health: health, tracked: make(map[*activity]struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	hosts := hostsOf(config)
	for _, variants := range hosts {
		c.hosts = append(c.hosts, c.newHost(config, variants, len(hosts) > 1, parse))
	}
	if len(hosts) > 1 {
		go c.watch()
	}
	return c, nil
}

// hostsOf returns the hosts of the URL, each with the variants of connecting to it: with TLS, without, or both.
func hostsOf(config *pgx.ConnConfig) (hosts [][]*pgconn.FallbackConfig) {
	all := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, variant := range all {
		i := slices.IndexFunc(hosts, func(h []*pgconn.FallbackConfig) bool {
			return h[0].Host == variant.Host && h[0].Port == variant.Port
		})
		if i < 0 {
			i, hosts = len(hosts), append(hosts, nil)
		}
		hosts[i] = append(hosts[i], variant)
	}
	return hosts
}

// host is one of the URL's.
type host struct {
	driver.Connector
	c *connector
	// address is the one that connected last, of those that the name has.
	address atomic.Pointer[string]
}

// newHost prepares connections to one host, which is one of several or the only one.
func (c *connector) newHost(config *pgx.ConnConfig, variants []*pgconn.FallbackConfig, several bool, parse func() (*pgx.ConnConfig, error)) *host {
	h, config := &host{c: c}, config.Copy()
	config.Host, config.Port, config.TLSConfig = variants[0].Host, variants[0].Port, variants[0].TLSConfig
	config.Fallbacks = variants[1:]
	if several {
		config.DialFunc = h.followed(config.DialFunc)
		if config.ValidateConnect == nil { // or whichever responds first would do, a standby, too
			config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
	}
	h.Connector = stdlib.GetConnector(*config,
		stdlib.OptionBeforeConnect(func(ctx context.Context, config *pgx.ConnConfig) error {
			if fresh, err := parse(); err == nil {
				config.User, config.Password = fresh.User, fresh.Password
			}
			return h.shareTime(ctx, config)
		}),
		stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
			if address, _, err := net.SplitHostPort(conn.PgConn().Conn().RemoteAddr().String()); err == nil {
				h.address.Store(&address)
			}
			c.health.prove(conn)
			return setPlannerOptions(ctx, conn)
		}),
		stdlib.OptionResetSession(c.reset))
	return h
}

// shareTime gives each address of a host its share of the time, and tries the one first that connected last: of several
// addresses the first may be silent.
func (h *host) shareTime(ctx context.Context, config *pgx.ConnConfig) error {
	if network, _ := pgconn.NetworkAddress(config.Host, config.Port); network == "unix" {
		return nil
	}
	addresses, err := config.LookupFunc(ctx, config.Host)
	if err != nil || len(addresses) < 2 {
		return err
	}
	if last := h.address.Load(); last != nil {
		slices.SortStableFunc(addresses, func(a, b string) int {
			switch *last {
			case a:
				return -1
			case b:
				return 1
			}
			return 0
		})
	}
	config.LookupFunc = func(context.Context, string) ([]string, error) { return addresses, nil }
	if deadline, ok := ctx.Deadline(); ok {
		attempts := len(addresses) * (1 + len(config.Fallbacks))
		config.ConnectTimeout = min(config.ConnectTimeout, time.Until(deadline)/time.Duration(attempts))
	}
	return nil
}

// connect makes a connection to the host, within the connector's timeout.
func (h *host) connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.c.timeout)
	defer cancel()
	defer context.AfterFunc(h.c.ctx, cancel)()
	return h.Connector.Connect(ctx)
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// Close implements io.Closer. The pool calls it.
func (c *connector) Close() error {
	c.stop()
	return nil
}

// Connect implements driver.Connector. It returns ErrBusy when no host has responded in time: nothing was asked of the
// database then, so the caller may try again.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.refusal(); err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx)
	if isCrowded(err) {
		c.refuse(err)
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return conn, err
}

// isCrowded reports whether a server takes no more connections.
func isCrowded(err error) bool { return err != nil && errors.Is(classify(err), errCrowded) }

// refuse has nobody else ask for a connection for a while: each would cost the server a process.
func (c *connector) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crowded, c.retry = err, time.Now().Add(crowdedInterval)
}

// refusal returns what the server said, as long as it is not to be asked again.
func (c *connector) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crowded != nil && time.Now().After(c.retry) {
		c.crowded = nil
	}
	return c.crowded
}

func (c *connector) connect(ctx context.Context) (driver.Conn, error) {
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
		a.sent.Add(1) // it waits from the beginning
		conn, err := h.connect(attempt)
		c.unfollow(a)
		cancel()
		if err == nil || ctx.Err() != nil || isCrowded(err) {
			return conn, err
		}
		if c.leave(h); tries == maxAttempts {
			return nil, err
		}
	}
}

// find returns the current host, or the one that a search finds before ctx ends.
func (c *connector) find(ctx context.Context) (*host, error) {
	c.mu.Lock()
	h, s := c.current, c.running
	if h == nil && s == nil {
		s = c.beginSearch()
	}
	c.mu.Unlock()
	if h != nil {
		return h, nil
	}
	select {
	case <-s.done:
		return s.found, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave has the next caller search, since h has refused.
func (c *connector) leave(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == h {
		c.current = nil
	}
}

// search looks for the host that takes writes, once for all who wait for it.
type search struct {
	done  chan struct{} // closed at the end
	found *host
	err   error // of all hosts
}

// beginSearch is called with c.mu.
func (c *connector) beginSearch() *search {
	s, current := &search{done: make(chan struct{})}, c.current
	c.running = s
	go func() {
		s.found, s.err = c.search(current)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.running = nil; s.found != nil {
			c.rested = time.Now().Add(restInterval)
			c.switchTo(s.found)
		}
		close(s.done)
	}()
	return s
}

// search asks all hosts at once, and returns the first that takes writes, but current if that does, too. It asks those
// that refuse again and again as long as another one has not responded, and fails when all have refused or the time is over.
func (c *connector) search(current *host) (*host, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	defer cancel()
	type result struct {
		*host
		err error
	}
	results := make(chan result) // of the first attempts, and of those that succeed
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
		waitForCurrent = time.After(grace)
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

// switchTo makes h the current host, and ends all that is under way elsewhere. It is called with c.mu.
func (c *connector) switchTo(h *host) {
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

// reset is called before each use of a pooled connection but the first. One that must not be used any more leaves the pool.
func (c *connector) reset(ctx context.Context, conn *pgx.Conn) error {
	if a := activityOf(conn); a != nil && a.ended.Load() {
		return driver.ErrBadConn
	}
	return c.health.check(ctx, conn)
}
