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

// health is the experience of calls with the server, as times in nanoseconds since 1970.
type health struct {
	timeout                    time.Duration
	suspected, answered, reset atomic.Int64
}

const (
	idleUntilPing = time.Second     // a connection that was idle for longer is pinged before its next use
	suspicion     = 4 * time.Second // all are pinged this long after a call that ran out of time or lost its connection
)

// Suspect is called with the error of each call, also nil.
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

// mayReset reports whether a ping in vain condemns the other connections, too: once in a timeout, so that a slow server is not asked for
// all of them again and again, and not if any has responded meanwhile.
func (h *health) mayReset() bool {
	now, last := time.Now().UnixNano(), h.reset.Load()
	return now-max(last, h.answered.Load()) > int64(h.timeout) && h.reset.CompareAndSwap(last, now)
}

// isDead pings a suspect connection, for a quarter of a timeout. It is the ShouldPing of a pool, which pings a dead one once more and takes
// another. A dead host takes all connections with it: they are closed together, or each would cost a caller that quarter.
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

// checkTimeline refuses a server whose timeline is behind the highest one seen. Package pgx asks hosts in the order of the URL, so a
// replaced primary would get new connections again. The first connection to its successor ends all others: the old one acknowledges
// nothing.
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
