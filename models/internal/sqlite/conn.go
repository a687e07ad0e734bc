package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"time"

	"modernc.org/sqlite" // also the driver "sqlite", without cgo
)

// Conn is a connection to a SQLite file for a command, beside the store's pools.
type Conn struct {
	*sql.Conn
	db *sql.DB
}

// OpenConn opens the file of a path as in DATABASE_URL, with parameters of SQLite's URIs and of the driver.
func OpenConn(ctx context.Context, path string, parameters url.Values) (Conn, error) {
	db, err := sql.Open("sqlite", dsnOf(path, parameters))
	if err != nil {
		return Conn{}, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return Conn{}, err
	}
	return Conn{conn, db}, nil
}

func (s Conn) Close() {
	s.Conn.Close()
	s.db.Close()
}

func (s Conn) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := s.Conn.ExecContext(ctx, statement, args...)
	return err
}

func (s Conn) Value(ctx context.Context, into any, query string, args ...any) error {
	return s.Conn.QueryRowContext(ctx, query, args...).Scan(into)
}

// BrokenReferences selects the tables with rows that refer to nothing, "" without any. Only connections that ask for it prevent such rows.
const BrokenReferences = `SELECT coalesce(group_concat(DISTINCT "table" || ' refers to ' || parent || ', where there is no such row'), '')
	FROM pragma_foreign_key_check`

// OpenPool makes a pool of connections to the file, which the first one makes. They wait at most busy for other processes and each other.
func (f *File) OpenPool(busy time.Duration) (*sql.DB, error) {
	c, err := sqlite.NewConnector(DSN(f.uri, busy))
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector{c, f}), nil
}

// connector makes connections that all have the same file.
type connector struct {
	driver.Connector
	file *File
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	return c.file.connect(ctx, func() (driver.Conn, error) { return c.Connector.Connect(ctx) })
}
