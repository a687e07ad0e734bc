package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
)

// tryCredentials connects with a URL, and looks at the rights of its role. It returns ErrCredentials, or why it could not find out.
func tryCredentials(ctx context.Context, url string, timeout time.Duration) error {
	s, err := New(url, timeout)
	if err != nil {
		return err
	}
	conn, err := s.Dial(ctx, func(*pgconn.Notification) {})
	if dberr.IsRefusal(err) || dberr.IsCode(err, "08P01", "42501") { // by PgBouncer, or without the right to connect
		return fmt.Errorf("%w: %s", ErrCredentials, dberr.RootCause(err))
	}
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return checkRights(ctx, timeout, conn)
}

// checkRights returns ErrCredentials unless the role of a connection may read and write the existing tables.
func checkRights(ctx context.Context, timeout time.Duration, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var may bool
	err := conn.QueryRow(ctx, `
		SELECT coalesce(bool_and(has_table_privilege(to_regclass(name), privilege)), true)
		FROM unnest(ARRAY['`+strings.Join(append(schema.CopiedNames(), "changes", "incarnation"), "', '")+`']) name, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) privilege`).Scan(&may)
	if err == nil && !may {
		return fmt.Errorf("%w: the role may not read and write all tables", ErrCredentials)
	}
	return err
}

// ErrFixedURL is returned by UseCredentials for a URL that differs in more than user and password.
var ErrFixedURL = errors.New("only the user and the password may change while the service runs: restart it for the rest")

// ErrCredentials is returned by UseCredentials for a user who cannot work with the database.
var ErrCredentials = errors.New("the database refuses the new user or password")

// Credentials is the result of UseCredentials.
type Credentials struct {
	Changed bool // the URL differed from the former one
	// Untried is why the new credentials could not be tried, nil if they were: the database may be away, or have no room for a connection.
	Untried error
}
