package models

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// server is the PostgreSQL server, or the several of which one takes writes, that a URL names.
type server struct {
	url    *postgresURL
	health *health
}

// newServer connects to nothing yet. An error means that the URL can never work. timeout bounds one attempt to connect.
func newServer(text string, timeout time.Duration) (*server, error) {
	s := &server{url: newPostgresURL(text, timeout), health: &health{timeout: timeout}}
	_, err := s.url.parse()
	return s, err
}

// name says which database it is, without anything secret; "postgres" when the URL can no longer be read.
func (s *server) name() string {
	config, err := s.url.parse()
	if err != nil {
		return "postgres"
	}
	return postgresName(config)
}

// openPool prepares a pool of connections.
func (s *server) openPool() (*sql.DB, error) {
	c, err := newConnector(s.url, nil, s.health)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// beside prepares connections beside the pool, which call onNotify with each notification.
func (s *server) beside(onNotify func(*pgconn.Notification)) (*connector, error) {
	return newConnector(s.url, onNotify, s.health)
}

// timedOut is called after a call that has run out of time: the host of its connection may be silent.
func (s *server) timedOut() { s.health.doubt() }

// useCredentials has new connections made with the user and the password of a URL. It returns ErrFixedURL or ErrCredentials, and then
// changes nothing.
func (s *server) useCredentials(ctx context.Context, text string) (c Credentials, err error) {
	u := s.url
	if text == *u.text.Load() {
		return c, nil
	}
	if !sameButCredentials(*u.text.Load(), text) {
		return c, ErrFixedURL
	}
	if c.Untried = tryCredentials(ctx, newPostgresURL(text, u.timeout)); errors.Is(c.Untried, ErrCredentials) {
		return Credentials{}, c.Untried
	}
	u.replace(text)
	c.Changed = true
	return c, nil
}
