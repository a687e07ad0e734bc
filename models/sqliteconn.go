package models

import (
	"context"
	"database/sql"
	"net/url"
)

// sqliteConn is a connection to a SQLite file beside the store's pools, for what commands do.
type sqliteConn struct {
	db   *sql.DB
	conn *sql.Conn
}

// openSQLiteConn opens the file that path names as in DATABASE_URL, with parameters of SQLite's URIs and of the driver.
func openSQLiteConn(ctx context.Context, path string, parameters url.Values) (sqliteConn, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+parameters.Encode())
	if err != nil {
		return sqliteConn{}, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return sqliteConn{}, err
	}
	return sqliteConn{db, conn}, nil
}

func (s sqliteConn) close() {
	s.conn.Close()
	s.db.Close()
}

func (s sqliteConn) exec(ctx context.Context, statement string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, statement, args...)
	return err
}

func (s sqliteConn) value(ctx context.Context, into any, query string, args ...any) error {
	return s.conn.QueryRowContext(ctx, query, args...).Scan(into)
}

// texts returns the rows of a query for one text.
func (s sqliteConn) texts(ctx context.Context, query string, args ...any) (texts []string, err error) {
	rows, err := s.conn.QueryContext(ctx, query, args...)
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

// schema returns the version of the schema, 0 if there is none.
func (s sqliteConn) schema(ctx context.Context) (version int64, err error) {
	var there bool
	err = s.value(ctx, &there, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'goose_db_version')")
	if err == nil && there {
		err = s.value(ctx, &version, schemaQuery)
	}
	return version, err
}
