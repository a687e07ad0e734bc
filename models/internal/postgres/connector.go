package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/models/internal/dberr"
)

// fullInterval is how long no attempt asks for a connection after the server has refused one more (SQLSTATE 53300).
const fullInterval = 100 * time.Millisecond

// Driver implements driver.Connector.
func (s *Server) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// Connect implements driver.Connector. While the server takes no more connections, it returns the server's error,
// which dberr.Classify makes ErrFull. Otherwise it returns ErrUnreachable, unless ctx was canceled: nothing was
// asked of the database, so the caller may try again.
func (s *Server) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.attempts.take(ctx)
	switch {
	case err == nil, isFull(err), errors.Is(ctx.Err(), context.Canceled):
		return conn, err
	case errors.Is(err, context.Canceled): // the attempt was ended, and the caller must not seem to have left
		return nil, fmt.Errorf("%w: %v", dberr.ErrUnreachable, err)
	}
	return nil, fmt.Errorf("%w: %w", dberr.ErrUnreachable, err)
}

// attempt makes a connection, unless the server has just refused one more.
func (s *Server) attempt() (driver.Conn, error) {
	if err := s.refusal(); err != nil {
		return nil, err
	}
	conn, err := s.hosts.connect()
	if isFull(err) {
		s.refuse(err)
	}
	return conn, err
}

// isFull reports whether a server takes no more connections.
func isFull(err error) bool { return err != nil && errors.Is(dberr.Classify(err), dberr.ErrFull) }

// refuse keeps attempts from asking for a connection for a while. Each of them would cost the server a
// process, which it has too many of.
func (s *Server) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.retry = err, time.Now().Add(fullInterval)
}

// refusal returns the server's answer for as long as nobody is to ask again.
func (s *Server) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil && time.Now().After(s.retry) {
		s.full = nil
	}
	return s.full
}

// fit returns driver.ErrBadConn for a spare that does not respond any more.
func (s *Server) fit(ctx context.Context, conn driver.Conn) error {
	return conn.(*stdlib.Conn).ResetSession(ctx)
}

// reset is called before the first use of a spare, and before each use of a pooled connection except the first.
// With driver.ErrBadConn the connection leaves the pool.
func (s *Server) reset(ctx context.Context, conn *pgx.Conn) error {
	if a := activityOf(conn); a != nil && a.ended.Load() {
		return driver.ErrBadConn
	}
	if s.IsStale(conn.PgConn()) {
		return driver.ErrBadConn
	}
	return s.checks.check(ctx, conn)
}

// hearKey is where a connection keeps the function that hears its notifications.
const hearKey = "worldevents.hear"

// Hear makes a connection call hear with each notification. Others drop theirs.
func Hear(conn *pgconn.PgConn, hear func(*pgconn.Notification)) { conn.CustomData()[hearKey] = hear }

// hear is called with each notification that arrives (pgconn.Config.OnNotification). Without it pgx would keep
// notifications until somebody asks for them, and a pooler may deliver notifications to anybody.
func hear(conn *pgconn.PgConn, n *pgconn.Notification) {
	if hear, ok := conn.CustomData()[hearKey].(func(*pgconn.Notification)); ok {
		hear(n)
	}
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
