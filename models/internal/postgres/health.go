package postgres

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// health knows which connections of a pool may lead to a host that is silent. After a call has run out of time each of
// them must prove itself before its next use, and at any time one that nobody has used for a second. If one stays silent, all
// leave the pool: else each would cost a caller all its time.
type health struct {
	timeout time.Duration
	// doubts counts calls that ran out of time, and connections that stayed silent without that. A connection has proved itself if it has responded since the last one.
	doubts atomic.Uint64
	// silent is what doubts was when a connection stayed silent.
	silent atomic.Uint64
}

// provenKey is where a connection keeps what doubts was when it last proved itself.
const provenKey = "worldevents.proven"

// idleKey is set on a connection that nobody has used for a second.
const idleKey = "worldevents.idle"

// doubt is called when a call has run out of time.
func (h *health) doubt() { h.doubts.Add(1) }

// prove is called when a connection has responded.
func (h *health) prove(conn *pgx.Conn) {
	data := conn.PgConn().CustomData()
	data[provenKey] = h.doubts.Load()
	delete(data, idleKey)
}

// noteIdle is called before check, and has pgx send no ping of its own: that would take all the time of a caller.
func (h *health) noteIdle(_ context.Context, p stdlib.ShouldPingParams) (ping bool) {
	if p.IdleDuration > time.Second {
		p.Conn.PgConn().CustomData()[idleKey] = true
	}
	return false
}

// check returns driver.ErrBadConn for a connection that must not be used. It asks the host if need be, within half of the
// time: the other half is for making a connection instead.
func (h *health) check(ctx context.Context, conn *pgx.Conn) error {
	doubts, data := h.doubts.Load(), conn.PgConn().CustomData()
	proven, _ := data[provenKey].(uint64)
	switch {
	case proven < h.silent.Load():
		return driver.ErrBadConn
	case proven == doubts && data[idleKey] == nil:
		return nil
	}
	wait := h.timeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	ping, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := conn.PgConn().Ping(ping); err != nil {
		if ping.Err() != nil && ctx.Err() == nil {
			if proven == doubts { // the others have proved themselves, too, but that is long ago
				doubts = h.doubts.Add(1)
			}
			h.silent.Store(doubts)
		}
		return driver.ErrBadConn
	}
	h.prove(conn)
	return nil
}
