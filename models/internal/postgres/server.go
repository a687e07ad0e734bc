package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Server is the database that a URL names: one PostgreSQL server, or several of which one takes writes.
type Server struct {
	url    *serverURL
	checks *checks
}

// New reads the URL and connects to nothing yet. An error means that the URL can never work. timeout bounds one
// attempt to connect.
func New(text string, timeout time.Duration) (*Server, error) {
	s := &Server{url: newServerURL(text, timeout), checks: &checks{timeout: timeout}}
	_, err := s.url.parse()
	return s, err
}

// Name says which database it is, and contains no secret. It is "postgres" if the URL can no longer be read, as
// when a file that it names is gone.
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

// Beside prepares connections that do not belong to the pool. They call onNotify with each notification.
func (s *Server) Beside(onNotify func(*pgconn.Notification)) (*Connector, error) {
	return newConnector(s.url, onNotify, s.checks)
}

// TimedOut is called after a call that ran out of time: all connections that have not responded since are
// suspect.
func (s *Server) TimedOut() { s.checks.suspect() }

// UseCredentials makes new connections use the user and the password of a URL. It tries them first. It returns
// ErrFixedURL or ErrCredentials, and then changes nothing. If they could not be tried, it uses them all the
// same: the former ones may end soon.
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
