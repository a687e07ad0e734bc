package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
)

// serverURL is the URL of the database. Its user and password may be replaced while connections are made.
type serverURL struct {
	text    atomic.Pointer[string]
	timeout time.Duration
	// generation counts replacements. A connection made with an earlier one is stale: it leaves when nobody uses it.
	generation atomic.Uint64
}

// generationKey is where a connection keeps the generation that it was made with.
const generationKey = "worldevents.generation"

func newServerURL(text string, timeout time.Duration) *serverURL {
	u := &serverURL{timeout: timeout}
	u.text.Store(&text)
	return u
}

// parse reads the URL, and the files that it names, as they are now.
func (u *serverURL) parse() (*pgx.ConnConfig, error) {
	return Parse(*u.text.Load(), u.timeout)
}

// replace has all connections that are made from now on use text.
func (u *serverURL) replace(text string) {
	u.text.Store(&text)
	u.generation.Add(1)
}

// mark returns what notes on a connection (pgconn.Config.AfterConnect) that it is of the present generation. It is to be called
// before the URL is read for it: then a connection may pass for older than it is, and never for newer.
func (u *serverURL) mark() func(context.Context, *pgconn.PgConn) error {
	generation := u.generation.Load()
	return func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[generationKey] = generation
		return nil
	}
}

// isStale reports whether the user or the password has been replaced since a connection was made.
func (u *serverURL) isStale(conn *pgconn.PgConn) bool {
	now := u.generation.Load()
	if now == 0 {
		return false
	}
	made, _ := conn.CustomData()[generationKey].(uint64)
	return made != now
}

// tryCredentials makes a connection, and looks at the rights of its role. It returns ErrCredentials, or another error when
// there was no telling.
func tryCredentials(ctx context.Context, u *serverURL) error {
	c, err := newConnector(u, nil, &checks{timeout: u.timeout})
	if err != nil {
		return err
	}
	defer c.Close()
	conn, err := c.Connect(ctx)
	if dberr.IsRefusal(err) || isRefusedByPooler(err) {
		return fmt.Errorf("%w: %s", ErrCredentials, dberr.RootCause(err))
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	return checkRights(ctx, u.timeout, conn)
}

// checkRights returns ErrCredentials unless the role of a connection may read and write the tables that are there.
func checkRights(ctx context.Context, timeout time.Duration, conn driver.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var may bool
	err := conn.(*stdlib.Conn).Conn().QueryRow(ctx, `
		SELECT coalesce(bool_and(has_table_privilege(to_regclass(name), privilege)), true)
		FROM unnest(ARRAY['`+strings.Join(append(schema.CopiedNames(), "changes", "incarnation"), "', '")+`']) name, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) privilege`).Scan(&may)
	if err == nil && !may {
		return fmt.Errorf("%w: the role may not read and write all tables", ErrCredentials)
	}
	return err
}

// isRefusedByPooler reports whether PgBouncer has refused the credentials, or the server has for want of the right to connect.
func isRefusedByPooler(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "08P01" || pg.Code == "42501")
}

// ErrFixedURL is returned by UseCredentials for a URL that differs in more than user and password.
var ErrFixedURL = errors.New("only the user and the password may change while the service runs: restart it for the rest")

// ErrCredentials is returned by UseCredentials for a user who cannot work with the database.
var ErrCredentials = errors.New("the database refuses the new user or password")

// Credentials say what UseCredentials has done.
type Credentials struct {
	// Changed means that the URL was another one.
	Changed bool
	// Untried is why the new ones could not be tried, nil if they were: the database is away, or has no room.
	Untried error
}
