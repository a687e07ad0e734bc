package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"worldevents/models/internal/dberr"
)

// health is what calls say about the server. The fields are times in nanoseconds since 1970.
type health struct {
	timeout                    time.Duration
	suspected, answered, reset atomic.Int64
}

const (
	// idleUntilPing is how long a connection may be idle without being pinged before its next use.
	idleUntilPing = time.Second
	// suspicion is how long all are pinged after a call that ran out of time or lost its connection.
	suspicion = 4 * time.Second
)

// Suspect is called with the error of each call, nil perhaps.
func (s *Server) Suspect(err error) {
	switch {
	case err == nil:
		s.health.answered.Store(time.Now().UnixNano())
	case errors.Is(err, dberr.ErrTimeout), dberr.IsLost(err):
		s.health.suspected.Store(time.Now().UnixNano())
	}
}

// isSuspect reports whether a connection must respond before its next use.
func (h *health) isSuspect(idle time.Duration) bool {
	return idle > idleUntilPing || time.Now().UnixNano()-h.suspected.Load() < int64(suspicion)
}

// mayReset reports whether a ping in vain condemns the other connections, too: so that a slow server is not asked for all of
// them again and again, it does so once in a timeout, and not if any has responded meanwhile.
func (h *health) mayReset() bool {
	now, last := time.Now().UnixNano(), h.reset.Load()
	return now-max(last, h.answered.Load()) > int64(h.timeout) && h.reset.CompareAndSwap(last, now)
}

// isDead pings a connection that is suspect, for a quarter of a timeout. It is the ShouldPing of a pool, which pings what is dead once
// more, in vain, and takes another. A host that is gone takes all connections with it: they are closed together, or each would cost a
// caller that quarter.
func (s *Server) isDead(ctx context.Context, p pgxpool.ShouldPingParams) bool {
	if !s.health.isSuspect(p.IdleDuration) {
		return false
	}
	ping, cancel := context.WithTimeout(ctx, s.timeout/4)
	defer cancel()
	if p.Conn.Ping(ping) == nil {
		s.Suspect(nil)
		return false
	}
	if ping.Err() != nil && ctx.Err() == nil && s.health.mayReset() {
		s.renew()
	}
	return true
}

// timeline is what a promotion changes about a server: number grows with each, in hexadecimal digits.
type timeline struct{ system, number string }

// checkTimeline refuses a server whose timeline is behind the highest one seen. Package pgx asks hosts in the order of the URL, so
// that without this a primary that was replaced, and goes on, would get new connections again. The first connection to its successor
// ends all others, so that nothing is acknowledged at the old one any more.
func (s *Server) checkTimeline(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "SELECT system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()").ReadAll()
	if pg := new(pgconn.PgError); errors.As(err, &pg) && !conn.IsClosed() {
		return nil // a standby, or an engine that has only PostgreSQL's protocol
	}
	if err != nil {
		return err
	}
	now := timeline{string(results[0].Rows[0][0]), string(results[0].Rows[0][1])}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.system == s.seen.system && now.number < s.seen.number {
		return fmt.Errorf("its timeline %s is behind %s: another server was promoted", now.number, s.seen.number)
	}
	if now != s.seen {
		for other := range s.validated {
			other.Conn().Close()
		}
		s.seen, s.validated = now, make(map[*pgconn.PgConn]struct{})
	}
	s.validated[conn] = struct{}{}
	go func() {
		<-conn.CleanupDone()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.validated, conn)
	}()
	return nil
}
