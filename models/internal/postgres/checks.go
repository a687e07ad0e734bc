package postgres

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// checks decides which connections of a pool must respond before their next use, because their host may be
// gone:
//
//	      a call ran out of time or lost its
//	      connection, or nobody used it for a second     it responds
//	fine ───────────────────────────────────▶ suspect ────────────────▶ fine
//	                                             │
//	                                             └──▶ lost: no response, and all other suspects are lost with it
//
// A host that is gone takes all connections with it. If each suspect were checked by itself, each would cost
// another caller all its time. So one that does not respond condemns the others.
type checks struct {
	timeout time.Duration
	// suspicions counts the calls that ran out of time or lost their connection, and the idle connections that did
	// not respond. A connection is fine if it has responded since the last of these.
	suspicions atomic.Uint64
	// lost is the value that suspicions had when a connection was lost. Connections that last responded before
	// it are lost.
	lost atomic.Uint64
}

const (
	// respondedKey is where a connection keeps the value that suspicions had when it last responded.
	respondedKey = "worldevents.responded"
	// idleKey is set on a connection that nobody used for a second.
	idleKey = "worldevents.idle"
)

// responded is called after a connection has responded.
func (c *checks) responded(conn *pgx.Conn) {
	data := conn.PgConn().CustomData()
	data[respondedKey] = c.suspicions.Load()
	delete(data, idleKey)
}

// noteIdle is called before check. It keeps pgx from sending a ping of its own, whose only bound is all of the
// caller's time.
func (c *checks) noteIdle(_ context.Context, p stdlib.ShouldPingParams) (ping bool) {
	if p.IdleDuration > time.Second {
		p.Conn.PgConn().CustomData()[idleKey] = true
	}
	return false
}

// check returns driver.ErrBadConn for a connection that is lost, so that its caller takes another. It pings a
// suspect for at most half of the caller's time, so that the other half is left for making a connection. What does
// not respond to somebody who had hardly any time condemns no others.
func (c *checks) check(ctx context.Context, conn *pgx.Conn) error {
	suspicions, data := c.suspicions.Load(), conn.PgConn().CustomData()
	responded, _ := data[respondedKey].(uint64)
	switch {
	case responded < c.lost.Load():
		return driver.ErrBadConn
	case responded == suspicions && data[idleKey] == nil:
		return nil
	}
	wait := c.timeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	ping, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := conn.PgConn().Ping(ping); err != nil {
		if ping.Err() != nil && ctx.Err() == nil && wait >= c.timeout/8 {
			if responded == suspicions { // it was idle; the others count as fine, so this makes all of them older than lost
				suspicions = c.suspicions.Add(1)
			}
			c.lost.Store(suspicions)
		}
		return driver.ErrBadConn
	}
	c.responded(conn)
	return nil
}
