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
	// maxSuspectInterval is how seldom findSuspects looks for connections that wait for a response. It looks more
	// often where calls end sooner.
	maxSuspectInterval = 50 * time.Millisecond
	// suspectAfter is after how many intervals a host is suspect: one connection must have waited so long, and
	// no connection to the host may have received anything meanwhile.
	suspectAfter = 4
)

// activity is a connection to a host, or an attempt to make one. It may be waiting for the host to respond.
type activity struct {
	host *host
	// sent counts writes to the host. heard is the value that sent had when the host last responded, so the
	// activity waits while they differ.
	sent, heard atomic.Uint64
	// end makes the activity fail at once. ended means that it was called.
	end   func()
	ended atomic.Bool

	seen  uint64 // for findSuspects: sent when it began to wait
	waits int    // for findSuspects: intervals that it has waited since
}

// follow begins an activity; unfollow ends it.
func (hs *hosts) follow(h *host, end func()) *activity {
	a := &activity{host: h, end: end}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.tracked[a] = struct{}{}
	return a
}

func (hs *hosts) unfollow(a *activity) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.tracked, a)
}

// findSuspects searches for another host whenever the current one is suspect, until hs is stopped. If a statement
// is merely slow, the search finds the same host. That host has then responded to the search, and nothing
// changes.
func (hs *hosts) findSuspects() {
	tick := time.NewTicker(max(time.Millisecond, min(maxSuspectInterval, hs.timeout/(2*suspectAfter))))
	defer tick.Stop()
	for {
		select {
		case <-hs.ctx.Done():
			return
		case <-tick.C:
		}
		hs.mu.Lock()
		waiting, nothingHeard := hs.isWaiting(), hs.heard.isLongAgo(hs.current)
		hs.mu.Unlock()
		if waiting && nothingHeard {
			hs.search()
		}
	}
}

// isWaiting reports whether some activity has waited too long. It is called once in each interval; the caller
// holds hs.mu.
func (hs *hosts) isWaiting() (tooLong bool) {
	for a := range hs.tracked {
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

// lastHeard counts the intervals in which a host has sent nothing on any connection. Where many statements run,
// some are slow. A search for each of these would make connections to all hosts just when they have the least
// room.
type lastHeard struct {
	host      *host
	count     uint64 // the value that host.heard had
	intervals int    // since then
}

// isLongAgo reports whether h has sent nothing for more than suspectAfter intervals. It is called once in each
// interval.
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

// followed makes an activity of each connection that dial makes to the host.
func (h *host) followed(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return followedConn{conn, h.hosts.follow(h, func() { conn.Close() })}, nil
	}
}

// followedConn is a network connection with its activity.
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
	if n > 0 { // a Read also ends when the connection is closed, and then the host has sent nothing
		w.activity.host.heard.Add(1)
	}
	return n, err
}

// Close implements net.Conn.
func (w followedConn) Close() error {
	w.activity.host.hosts.unfollow(w.activity)
	return w.Conn.Close()
}

// activityOf returns the activity of a connection, nil if it has none.
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
