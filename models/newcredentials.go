package models

import (
	"context"
	"time"

	"worldevents/models/internal/postgres"
)

// UseCredentials has new connections made with the user and the password of a URL, which is otherwise that of Options. Connections
// that nobody uses are closed, and the others when what they do is done. It returns ErrFixedURL or ErrCredentials, and then
// changes nothing. It must not be called concurrently.
func (s *Store) UseCredentials(ctx context.Context, text string) (c postgres.Credentials, err error) {
	if s.server == nil {
		if text != s.url {
			err = postgres.ErrFixedURL
		}
		return c, err
	}
	if c, err = s.server.UseCredentials(ctx, text); c.Changed {
		s.instances.Renew()
		go s.closeIdle()
		time.AfterFunc(s.timeout, s.closeIdle) // those that were in use
	}
	return c, err
}

// closeIdle closes the connections of PostgreSQL's pool that nobody uses.
func (s *Store) closeIdle() {
	s.writer.sql.SetMaxIdleConns(0)
	s.writer.sql.SetMaxIdleConns(s.maxConns)
}
