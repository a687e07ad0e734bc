package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/dberr"
)

// Server is the database that a URL names: one PostgreSQL server, or several of which one takes writes. It makes
// the connections of the pools and those beside them (driver.Connector). The user and the password may be
// replaced while connections are made.
type Server struct {
	url     atomic.Pointer[string]
	timeout time.Duration
	// generation counts replacements. A connection of an earlier generation is stale, and leaves the pool when
	// its work is done.
	generation atomic.Uint64
	checks     checks
	hosts      *hosts
	attempts   *attempts

	mu             sync.Mutex
	user, password string    // those of the last connection
	full           error     // the server's answer while it takes no more connections
	retry          time.Time // when the server is asked again
}

// generationKey is where a connection keeps its generation.
const generationKey = "worldevents.generation"

// patienceWithSeveral is longer than any attempt takes. With several hosts no attempt is overdue: a search ends
// attempts at a host that is gone.
const patienceWithSeveral = time.Hour

// New connects to nothing yet. timeout bounds one attempt to connect to a host. An error means that the URL can
// never work.
func New(url string, timeout time.Duration) (*Server, error) {
	config, err := Parse(url, timeout)
	if err != nil {
		return nil, err
	}
	s := &Server{timeout: timeout, checks: checks{timeout: timeout}, user: config.User, password: config.Password}
	s.url.Store(&url)
	s.attempts = &attempts{connect: s.attempt, fit: s.fit, timeout: timeout, patience: timeout / 2, limit: anyAttempts}
	if s.hosts = s.newHosts(config); len(s.hosts.all) > 1 {
		s.attempts.patience = patienceWithSeveral
	}
	return s, nil
}

// Stop ends all attempts to connect. Connections that were given away stay open: each pool closes its own.
func (s *Server) Stop() {
	s.hosts.stop()
	s.attempts.stop()
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

// IsStale reports whether the user or the password was replaced after a connection was made.
func (s *Server) IsStale(conn *pgconn.PgConn) bool {
	made, _ := conn.CustomData()[generationKey].(uint64)
	return made != s.generation.Load()
}

// credentials are those of the next connection. The URL may name a file for the password, which is read anew
// each time. While somebody replaces that file there may be no password for a moment; then the former one
// serves.
func (s *Server) credentials() (user, password string) {
	config, err := s.parse()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && (config.Password != "" || config.User != s.user) {
		s.user, s.password = config.User, config.Password
	}
	return s.user, s.password
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

// OpenPool prepares a pool of connections.
func (s *Server) OpenPool() *sql.DB { return sql.OpenDB(s) }

// Suspect is called with the error of a call. After one that ran out of time, or that lost its connection, all connections that have not
// responded since are suspect.
func (s *Server) Suspect(err error) {
	if errors.Is(err, dberr.ErrTimeout) || dberr.IsLost(err) {
		s.checks.suspicions.Add(1)
	}
}

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
	if c.Untried = tryCredentials(ctx, text, s.timeout); errors.Is(c.Untried, ErrCredentials) {
		return Credentials{}, c.Untried
	}
	s.url.Store(&text)
	s.generation.Add(1)
	c.Changed = true
	return c, nil
}
