package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Server is the PostgreSQL server, or the several of which one takes writes, that a URL names.
type Server struct {
	url    *serverURL
	checks *checks
}

// New connects to nothing yet. An error means that the URL can never work. timeout bounds one attempt to connect.
func New(text string, timeout time.Duration) (*Server, error) {
	s := &Server{url: newServerURL(text, timeout), checks: &checks{timeout: timeout}}
	_, err := s.url.parse()
	return s, err
}

// Name says which database it is, without anything secret; "postgres" when the URL can no longer be read.
func (s *Server) Name() string {
	config, err := s.url.parse()
	if err != nil {
		return "postgres"
	}
	return NameOf(config)
}

// OpenPool prepares a pool of connections.
func (s *Server) OpenPool() (*sql.DB, error) {
	c, err := newConnector(s.url, nil, s.checks)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// Beside prepares connections beside the pool, which call onNotify with each notification.
func (s *Server) Beside(onNotify func(*pgconn.Notification)) (*Connector, error) {
	return newConnector(s.url, onNotify, s.checks)
}

// TimedOut is called after a call that has run out of time: the host of its connection is suspect.
func (s *Server) TimedOut() { s.checks.suspect() }

// UseCredentials has new connections made with the user and the password of a URL. It returns ErrFixedURL or ErrCredentials, and then
// changes nothing.
func (s *Server) UseCredentials(ctx context.Context, text string) (c Credentials, err error) {
	u := s.url
	if text == *u.text.Load() {
		return c, nil
	}
	if !sameButCredentials(*u.text.Load(), text) {
		return c, ErrFixedURL
	}
	if c.Untried = tryCredentials(ctx, newServerURL(text, u.timeout)); errors.Is(c.Untried, ErrCredentials) {
		return Credentials{}, c.Untried
	}
	u.replace(text)
	c.Changed = true
	return c, nil
}
