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
	// watchInterval is how often connections are looked at that wait for a response.
	watchInterval = 50 * time.Millisecond
	// patience is how many intervals one waits, and its host says nothing to anybody, before the host may be silent.
	patience = 4
)

// activity is a connection to a host, or an attempt to make one, that may be waiting for the host to respond.
type activity struct {
	host *host
	// sent counts what was sent, and heard is what sent was when the host last responded.
	sent, heard atomic.Uint64
	// end makes the activity fail at once, and ended means that it was called.
	end   func()
	ended atomic.Bool

	seen  uint64 // the watch's: sent of some intervals ago
	waits int    // the watch's: for how many intervals it has waited since
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

// watch searches for another host whenever somebody has waited too long for a response while the host said nothing to
// others either, until the connector is closed. The statement may merely be slow: then the search finds the same host, which
// has said something by that, and nothing happens.
func (c *Connector) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		waiting, quiet := c.isWaiting(), c.quiet.lasts(c.current)
		if waiting && quiet && c.running == nil {
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
		tooLong = tooLong || a.waits >= patience
	}
	return tooLong
}

// quiet is for how long a host has said nothing on any connection. Where many statements run some are slow, and a search for
// each would make connections to all hosts when they have the least room for that.
type quiet struct {
	host      *host
	heard     uint64 // what host.heard was
	intervals int    // since then
}

// lasts reports whether the host has been quiet for too long. It is called once in each interval.
func (q *quiet) lasts(h *host) bool {
	if h == nil {
		return true
	}
	if heard := h.heard.Load(); q.host != h || q.heard != heard {
		*q = quiet{host: h, heard: heard}
	}
	q.intervals++
	return q.intervals > patience
}

// followed has the connections that dial makes to the host followed.
func (h *host) followed(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return watchedConn{conn, h.c.follow(h, func() { conn.Close() })}, nil
	}
}

// watchedConn is a network connection that is followed.
type watchedConn struct {
	net.Conn
	activity *activity
}

// Write implements net.Conn.
func (w watchedConn) Write(b []byte) (int, error) {
	w.activity.sent.Add(1)
	return w.Conn.Write(b)
}

// Read implements net.Conn.
func (w watchedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.activity.heard.Store(w.activity.sent.Load())
	if n > 0 { // and not when the connection is closed
		w.activity.host.heard.Add(1)
	}
	return n, err
}

// Close implements net.Conn.
func (w watchedConn) Close() error {
	w.activity.host.c.unfollow(w.activity)
	return w.Conn.Close()
}

// activityOf returns what follows a connection, nil if nothing does.
func activityOf(conn *pgx.Conn) *activity {
	c := conn.PgConn().Conn()
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if w, ok := c.(watchedConn); ok {
		return w.activity
	}
	return nil
}
