package copydb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"worldevents/models/internal/sqlite"
)

// copyBusy is how long a copy waits for other processes that use its SQLite file.
const copyBusy = 10 * time.Second

// sqliteSide is a SQLite file as one side of a copy.
type sqliteSide struct {
	sqlite.Conn
	// lenient allows values of any type, because they stay in SQLite.
	lenient bool
}

// openSQLiteSide opens a file for a copy. It reads and writes times in the form that sqlite.DSN gives them.
func openSQLiteSide(ctx context.Context, file string, pragmas ...string) (*sqliteSide, error) {
	conn, err := sqlite.OpenConn(ctx, file, url.Values{
		"mode": {"rw"}, "_time_format": {"sqlite"}, "_timezone": {"UTC"},
		"_pragma": append(pragmas, fmt.Sprintf("busy_timeout(%d)", copyBusy.Milliseconds())),
	})
	if err != nil {
		return nil, err
	}
	return &sqliteSide{Conn: conn}, nil
}

func (s *sqliteSide) columns(ctx context.Context, table string) (columns []copyColumn, err error) {
	rows, err := s.Conn.QueryContext(ctx, "SELECT name, type FROM pragma_table_info(?)", table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, declared string
		if err := rows.Scan(&name, &declared); err != nil {
			return nil, err
		}
		column, err := kindOf(sqliteKinds, table, name, declared)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return columns, rows.Err()
}

func (s *sqliteSide) read(ctx context.Context, from string, columns []copyColumn, order string, each func(copyRow) error) error {
	if order != "" {
		order = " ORDER BY " + order
	}
	rows, err := s.Conn.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s%s", columnList(columns), from, order))
	if err != nil {
		return err
	}
	defer rows.Close()
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	row, text := make(copyRow, len(columns)), make([]byte, 0, 1024)
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if text, err = s.encode(row, text[:0], columns, values); err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// encode makes a row of values. All bytes of the row are in text. That may be moved when it grows, so the row's
// slices are made at the end.
func (s *sqliteSide) encode(row copyRow, text []byte, columns []copyColumn, values []any) ([]byte, error) {
	ends := [32]int{}
	for i, value := range values {
		if value != nil {
			var err error
			if s.lenient {
				text = columns[i].kind.encodeAny(text, value)
			} else if text, err = columns[i].kind.encode(text, value); err != nil {
				return text, fmt.Errorf("%s %w, in the row with %s", columns[i].name, err, identify(columns, values))
			}
		}
		ends[i] = len(text)
	}
	begin := 0
	for i, value := range values {
		if row[i] = nil; value != nil {
			row[i] = text[begin:ends[i]:ends[i]]
		}
		begin = ends[i]
	}
	return text, nil
}

// identify names a row by its numbers and its id. None of them is a secret, as a hash or a name could be.
func identify(columns []copyColumn, values []any) string {
	var parts []string
	for i, c := range columns {
		if c.name == "id" || c.name == "number" || strings.HasSuffix(c.name, "_number") {
			parts = append(parts, fmt.Sprintf("%s %v", c.name, values[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// checkForeignKeys returns an error if a row refers to one that does not exist. SQLite checks foreign keys only
// on connections that ask for it, so a file may have such rows.
func (s *sqliteSide) checkForeignKeys(ctx context.Context) error {
	var broken int
	var table, parent string
	err := s.Conn.QueryRowContext(ctx, `SELECT "table", parent, count(*) OVER () FROM pragma_foreign_key_check LIMIT 1`).Scan(&table, &parent, &broken)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%d rows refer to none, as one of %s to %s: the sqlite3 shell shows them with PRAGMA foreign_key_check", broken, table, parent)
}
