package copydb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"worldevents/models/internal/sqlite"
)

const copyBusy = 10 * time.Second // for other processes that use the SQLite file

type sqliteSide struct{ sqlite.Conn }

// openSQLite opens a file for a copy, with the form of times that sqlite.DSN sets.
func openSQLite(ctx context.Context, file string, pragmas ...string) (*sqliteSide, error) {
	conn, err := sqlite.OpenConn(ctx, file, url.Values{
		"mode": {"rw"}, "_time_format": {"sqlite"}, "_timezone": {"UTC"},
		"_pragma": append(pragmas, fmt.Sprintf("busy_timeout(%d)", copyBusy.Milliseconds())),
	})
	if err != nil {
		return nil, err
	}
	return &sqliteSide{conn}, nil
}

func (s *sqliteSide) each(ctx context.Context, query string, do func(row []any) error) error {
	rows, err := s.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, _ := rows.Columns() // fails for closed rows only
	for rows.Next() {
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, value := range row {
			if bytes, ok := value.([]byte); ok && bytes == nil { // pgx would take it for NULL
				row[i] = []byte{}
			}
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sqliteSource is a snapshot of a file: a read transaction, which in WAL mode sees one state and lets others write.
type sqliteSource struct {
	*sqliteSide
	file   string
	writer *sqliteSide // keeps others from writing; nil while they may
}

func (c *copying) openSQLiteSource(ctx context.Context) error {
	file := c.from.file
	if info, err := os.Stat(file); err != nil { // SQLite would say that it is unable to open the file
		return err
	} else if !info.Mode().IsRegular() {
		return errors.New("is not a file")
	}
	c.users = sqlite.WhoHasOpen(file) // before this connection makes a -shm of its own
	side, err := openSQLite(ctx, file, "query_only(1)")
	if err != nil {
		return err
	}
	c.source = &sqliteSource{sqliteSide: side, file: file}
	return side.Exec(ctx, takeSnapshot)
}

// takeSnapshot reads something, because SQLite takes the snapshot at the first reading, not at BEGIN.
const takeSnapshot = "BEGIN; SELECT count(*) FROM sqlite_schema"

// hold keeps everybody from writing until release, and takes a newer snapshot, which then is the last state.
func (s *sqliteSource) hold(ctx context.Context) (err error) {
	if s.writer, err = openSQLite(ctx, s.file); err != nil {
		return err
	}
	// BEGIN IMMEDIATE succeeds even on a file that this process may only read. The write, which changes no row, does not.
	if err := s.writer.Exec(ctx, "BEGIN IMMEDIATE; DELETE FROM compatibility WHERE false"); err != nil {
		return err
	}
	return s.Exec(ctx, "ROLLBACK; "+takeSnapshot)
}

func (s *sqliteSource) release() {
	if s.writer != nil {
		s.writer.Close()
		s.writer = nil
	}
}

func (s *sqliteSource) Close() {
	s.release()
	s.sqliteSide.Close()
}
