package sqlite

import (
	"context"
	"database/sql"
	"net/url"
)

// Conn is a connection to a SQLite file for a command, beside the store's pools.
type Conn struct {
	*sql.Conn
	db    *sql.DB
	letGo func()
}

// OpenConn opens the file that path names as in DATABASE_URL, with parameters of SQLite's URIs and of the
// driver.
func OpenConn(ctx context.Context, path string, parameters url.Values) (Conn, error) {
	db, err := sql.Open("sqlite", dsnOf(path, parameters))
	if err != nil {
		return Conn{}, err
	}
	letGo := keep(FileOf(path))
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		letGo()
		return Conn{}, err
	}
	return Conn{conn, db, letGo}, nil
}

func (s Conn) Close() {
	s.Conn.Close()
	s.db.Close()
	s.letGo()
}

func (s Conn) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := s.Conn.ExecContext(ctx, statement, args...)
	return err
}

func (s Conn) Value(ctx context.Context, into any, query string, args ...any) error {
	return s.Conn.QueryRowContext(ctx, query, args...).Scan(into)
}

// Texts returns the rows of a query for one text.
func (s Conn) Texts(ctx context.Context, query string, args ...any) (texts []string, err error) {
	rows, err := s.Conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// sharedFirst and sharedSize are the bytes of a database file that a connection locks for reading (SHARED_FIRST
// and SHARED_SIZE in sqlite.org/src/file/src/os.h). With a write-ahead log it keeps that lock for as long as it
// has the file open, so the lock shows who does.
const sharedFirst, sharedSize = 0x40000002, 510
