package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/models/internal/dberr"
)

const (
	// lifetime is that of a connection, and lifetimeJitter at most is added, so that not all end together.
	lifetime, lifetimeJitter = 30 * time.Minute, 5 * time.Minute
	// failureInterval is the pause after a failed attempt to connect. Each costs the server a process, of which it has too many when it
	// takes no more connections (SQLSTATE 53300), and too much work when it was away.
	failureInterval = 100 * time.Millisecond
	// closing bounds how long the end of a pool waits for the work of its connections.
	closing = time.Second
)

// OpenPool prepares a pool of at most n connections.
func (s *Server) OpenPool(n int) (*sql.DB, error) {
	config, err := pgxpool.ParseConfig(*s.url.Load()) // for what it has by default
	if err != nil {
		return nil, err
	}
	config.ConnConfig = s.config.Copy()
	config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {} // a pooler may deliver any, and pgx would keep them
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(n), 0, 0
	config.MaxConnLifetime, config.MaxConnLifetimeJitter = lifetime, lifetimeJitter
	config.BeforeConnect, config.AfterConnect, config.ShouldPing = s.prepare, s.setUp, s.isDead
	config.BeforeClose = func(conn *pgx.Conn) {
		if conn.IsClosed() { // pgx would read to its end for 15 seconds
			conn.PgConn().Conn().Close()
		}
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.pools = append(s.pools, pool)
	s.mu.Unlock()
	db := sql.OpenDB(connector{stdlib.GetPoolConnector(pool), s, pool})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(-1) // idle ones are the pool's
	return db, nil
}

// connector names the errors of a pool, and closes it with its sql.DB.
type connector struct {
	driver.Connector
	server *Server
	pool   *pgxpool.Pool
}

// Connect returns the server's error, which dberr.Classify makes ErrFull, while the server takes no more connections. Otherwise it returns
// ErrUnreachable, unless ctx was canceled: nothing reached the database, so the caller may try again.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.server.isRecovering() {
		select {
		case c.server.few <- struct{}{}:
			defer func() { <-c.server.few }()
		case <-ctx.Done():
		}
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil && ctx.Err() == nil {
		c.server.refuse(err)
	}
	switch {
	case err == nil, isFull(err), errors.Is(ctx.Err(), context.Canceled):
		return conn, err
	case errors.Is(err, context.Canceled): // the pool was closed, and the caller must not seem to have left
		return nil, fmt.Errorf("%w: %v", dberr.ErrUnreachable, err)
	}
	return nil, fmt.Errorf("%w: %w", dberr.ErrUnreachable, err)
}

// Close implements io.Closer, for sql.DB.
func (c connector) Close() error {
	c.server.mu.Lock()
	c.server.pools = slices.DeleteFunc(c.server.pools, func(p *pgxpool.Pool) bool { return p == c.pool })
	c.server.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		c.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closing):
	}
	return nil
}

// isFull reports whether a server takes no more connections.
func isFull(err error) bool { return err != nil && errors.Is(dberr.Classify(err), dberr.ErrFull) }

// refuse has new connections refused for failureInterval, unless err is such a refusal.
func (s *Server) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != s.failure {
		s.failure, s.retry = err, time.Now().Add(failureInterval)
	}
}

// isRecovering reports whether a connection failed recently. Then few callers ask at once: many would slow a server that just came back.
func (s *Server) isRecovering() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.retry) < suspicion
}

// refusal returns the last failure during its failureInterval.
func (s *Server) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.retry) {
		return s.failure
	}
	return nil
}

// WhileFull repeats fn while it returns ErrFull, until ctx ends or a time has come; the zero time never comes. A connection of the pool may
// come free meanwhile, or another client may leave.
func WhileFull(ctx context.Context, giveUp time.Time, fn func() error) error {
	for {
		err := fn()
		if !errors.Is(err, dberr.ErrFull) || !giveUp.IsZero() && !time.Now().Before(giveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(failureInterval / 10):
		}
	}
}
