package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Server is the database that a URL names: one PostgreSQL server, or several of which one takes writes. The user
// and the password may be replaced while connections are made.
type Server struct {
	url     atomic.Pointer[string]
	timeout time.Duration
	// generation counts replacements. A connection of an earlier generation is stale, and leaves the pool when
	// its work is done.
	generation atomic.Uint64
	checks     checks
}

// generationKey is where a connection keeps its generation.
const generationKey = "worldevents.generation"

// New reads nothing and connects to nothing yet. timeout bounds one attempt to connect.
func New(url string, timeout time.Duration) *Server {
	s := &Server{timeout: timeout, checks: checks{timeout: timeout}}
	s.url.Store(&url)
	return s
}

// parse reads the URL and the files that it names as they are now.
func (s *Server) parse() (*pgx.ConnConfig, error) { return Parse(*s.url.Load(), s.timeout) }

// mark returns a function that notes the present generation on a connection (pgconn.Config.AfterConnect). It
// must be called before the URL is read for that connection. If a replacement comes in between, the connection
// then counts as older than it is, which costs one connection; the other way round a stale one would stay.
func (s *Server) mark() func(context.Context, *pgconn.PgConn) error {
	generation := s.generation.Load()
	return func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[generationKey] = generation
		return nil
	}
}

// Name says which database it is, and contains no secret. It is "postgres" if the URL can no longer be read, as
// when a file that it names is gone.
func (s *Server) Name() string {
	config, err := s.parse()
	if err != nil {
		return "postgres"
	}
	return NameOf(config)
}

// OpenPool prepares a pool of connections. An error means that the URL can never work.
func (s *Server) OpenPool() (*sql.DB, error) {
	c, err := s.NewConnector(nil)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// TimedOut is called after a call that ran out of time: all connections that have not responded since are
// suspect.
func (s *Server) TimedOut() { s.checks.suspicions.Add(1) }

// UseCredentials makes new connections use the user and the password of a URL. It tries them first. It returns
// ErrFixedURL or ErrCredentials, and then changes nothing. If they could not be tried, it uses them all the
// same: the former ones may end soon.
func (s *Server) UseCredentials(ctx context.Context, text string) (c Credentials, err error) {
	if text == *s.url.Load() {
		return c, nil
	}
	if !sameButCredentials(*s.url.Load(), text) {
		return c, ErrFixedURL
	}
	if c.Untried = New(text, s.timeout).tryCredentials(ctx); errors.Is(c.Untried, ErrCredentials) {
		return Credentials{}, c.Untried
	}
	s.url.Store(&text)
	s.generation.Add(1)
	c.Changed = true
	return c, nil
}
