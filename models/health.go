package models

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// health knows which connections of a pool may lead to a host that is silent. After a call has run out of time each of
// them must prove itself before its next use. If one stays silent, all leave the pool: else each would cost a caller all
// its time.
type health struct {
	timeout time.Duration
	// doubts counts calls that ran out of time. A connection has proved itself if it has responded since the last one.
	doubts atomic.Uint64
	// silent is what doubts was when a connection stayed silent.
	silent atomic.Uint64
}

// provenKey is where a connection keeps what doubts was when it last proved itself.
const provenKey = "worldevents.proven"

// doubt is called when a call has run out of time.
func (h *health) doubt() { h.doubts.Add(1) }

// prove is called when a connection has responded.
func (h *health) prove(conn *pgx.Conn) { conn.PgConn().CustomData()[provenKey] = h.doubts.Load() }

// check returns driver.ErrBadConn for a connection that must not be used. It asks the host if need be, within half of the
// time: the other half is for making a connection instead.
func (h *health) check(ctx context.Context, conn *pgx.Conn) error {
	doubts := h.doubts.Load()
	if doubts == 0 {
		return nil
	}
	proven, _ := conn.PgConn().CustomData()[provenKey].(uint64)
	switch {
	case proven == doubts:
		return nil
	case proven < h.silent.Load():
		return driver.ErrBadConn
	}
	wait := h.timeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	ping, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := conn.PgConn().Ping(ping); err != nil {
		if ping.Err() != nil && ctx.Err() == nil {
			h.silent.Store(doubts)
		}
		return driver.ErrBadConn
	}
	h.prove(conn)
	return nil
}
