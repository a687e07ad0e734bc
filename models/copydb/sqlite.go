package copydb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"time"

	"worldevents/models/internal/sqlite"
)

// copyBusy is how long a copy waits for other processes that use its SQLite file.
const copyBusy = 10 * time.Second

// sqliteSide is a connection to a SQLite file.
type sqliteSide struct{ sqlite.Conn }

// openSQLite opens a file for a copy. It reads and writes times in the form that sqlite.DSN gives them.
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

// columns has no types: any column has values of any type.
func (s *sqliteSide) columns() string {
	return "SELECT name, '' FROM pragma_table_info('%s') ORDER BY name"
}

func (s *sqliteSide) query(ctx context.Context, query string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := s.QueryContext(ctx, query)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		names, _ := rows.Columns() // fails for closed rows only
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		for rows.Next() {
			err := rows.Scan(into...)
			for i, value := range row {
				if bytes, ok := value.([]byte); ok && bytes == nil { // pgx would take it for NULL
					row[i] = []byte{}
				}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// checkForeignKeys returns an error if a row refers to one that does not exist.
func (s *sqliteSide) checkForeignKeys(ctx context.Context) error {
	var broken string
	err := s.Value(ctx, &broken, sqlite.BrokenReferences)
	if err == nil && broken != "" {
		err = errors.New(broken + ": the sqlite3 shell shows it with PRAGMA foreign_key_check")
	}
	return err
}

// sqliteSource is a snapshot of a file: a read transaction, which in WAL mode sees one state and keeps nobody
// from writing.
type sqliteSource struct {
	*sqliteSide
	file   string
	others string      // who else has the file open
	writer *sqliteSide // keeps others from writing; nil while they may
}

func openSQLiteSource(ctx context.Context, file string) (source, error) {
	if info, err := os.Stat(file); err != nil { // SQLite would say that it is unable to open the file
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	others := sqlite.WhoHasOpen(file) // before this connection makes a -shm of its own
	side, err := openSQLite(ctx, file, "query_only(1)")
	if err != nil {
		return nil, err
	}
	s := &sqliteSource{sqliteSide: side, file: file, others: others}
	return s, s.Exec(ctx, takeSnapshot)
}

// takeSnapshot reads something, because SQLite takes the snapshot at the first reading of a transaction, not at
// BEGIN.
const takeSnapshot = "BEGIN; SELECT count(*) FROM sqlite_schema"

// hold keeps everybody from writing until release, and takes a newer snapshot, which then is the last state.
func (s *sqliteSource) hold(ctx context.Context) (err error) {
	if s.writer, err = openSQLite(ctx, s.file); err != nil {
		return err
	}
	// BEGIN IMMEDIATE succeeds even if this process may only read the file. The write, which changes no row, does not.
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

func (s *sqliteSource) users(context.Context) string { return s.others }

func (s *sqliteSource) close() {
	s.release()
	s.Close()
}
