package postgres

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// suspectInterval is how often connections are looked at that wait for a response.
	suspectInterval = 50 * time.Millisecond
	// suspectAfter is for how many intervals one must have waited, and its host have said nothing to anybody, for the host to be suspect.
	suspectAfter = 4
)

// activity is a connection to a host, or an attempt to make one, that may be waiting for the host to respond.
type activity struct {
	host *host
	// sent counts what was sent, and heard is what sent was when the host last responded.
	sent, heard atomic.Uint64
	// end makes the activity fail at once, and ended means that it was called.
	end   func()
	ended atomic.Bool

	seen  uint64 // findSuspects': sent of some intervals ago
	waits int    // findSuspects': for how many intervals it has waited since
}

// follow begins an activity, and unfollow ends it.
func (c *Connector) follow(h *host, end func()) *activity {
	a := &activity{host: h, end: end}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracked[a] = struct{}{}
	return a
}

func (c *Connector) unfollow(a *activity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tracked, a)
}

// findSuspects searches for another host whenever the current one is suspect, until the connector is closed. A statement may merely be
// slow: then the search finds the same host, which has said something by that, and nothing happens.
func (c *Connector) findSuspects() {
	tick := time.NewTicker(suspectInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		waiting, nothingHeard := c.isWaiting(), c.heard.isLongAgo(c.current)
		if waiting && nothingHeard && c.running == nil {
			c.beginSearch()
		}
		c.mu.Unlock()
	}
}

// isWaiting reports whether some activity has waited too long. It is called with c.mu, once in each interval.
func (c *Connector) isWaiting() (tooLong bool) {
	for a := range c.tracked {
		sent := a.sent.Load()
		if sent == a.heard.Load() || sent != a.seen {
			a.seen, a.waits = sent, 0
			continue
		}
		a.waits++
		tooLong = tooLong || a.waits >= suspectAfter
	}
	return tooLong
}

// lastHeard is for how long a host has said nothing on any connection. Where many statements run some are slow, and a search for
// each would make connections to all hosts when they have the least room for that.
type lastHeard struct {
	host      *host
	count     uint64 // what host.heard was
	intervals int    // since then
}

// isLongAgo reports whether h has said nothing for longer than suspectAfter. It is called once in each interval.
func (l *lastHeard) isLongAgo(h *host) bool {
	if h == nil {
		return true
	}
	if count := h.heard.Load(); l.host != h || l.count != count {
		*l = lastHeard{host: h, count: count}
	}
	l.intervals++
	return l.intervals > suspectAfter
}

// followed has the connections that dial makes to the host followed.
func (h *host) followed(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return followedConn{conn, h.c.follow(h, func() { conn.Close() })}, nil
	}
}

// followedConn is a network connection that is followed.
type followedConn struct {
	net.Conn
	activity *activity
}

// Write implements net.Conn.
func (w followedConn) Write(b []byte) (int, error) {
	w.activity.sent.Add(1)
	return w.Conn.Write(b)
}

// Read implements net.Conn.
func (w followedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.activity.heard.Store(w.activity.sent.Load())
	if n > 0 { // and not when the connection is closed
		w.activity.host.heard.Add(1)
	}
	return n, err
}

// Close implements net.Conn.
func (w followedConn) Close() error {
	w.activity.host.c.unfollow(w.activity)
	return w.Conn.Close()
}

// activityOf returns what follows a connection, nil if nothing does.
func activityOf(conn *pgx.Conn) *activity {
	c := conn.PgConn().Conn()
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if w, ok := c.(followedConn); ok {
		return w.activity
	}
	return nil
}
