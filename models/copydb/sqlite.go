package copydb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"
	"time"

	"worldevents/models"
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

// sqliteTarget is a file that is being made under another name.
type sqliteTarget struct {
	*sqliteSide // nil before it is open
	file        *newFile
	restore     string // statements that make the dropped indexes and triggers
}

// open opens the file, which nobody sees before it is whole. A copy that is killed begins anew, so the file needs no journal. Making an
// index sorts, and sorting takes several times the memory of the cache.
func (t *sqliteTarget) open(ctx context.Context) (err error) {
	t.sqliteSide, err = openSQLite(ctx, t.file.temporary, "locking_mode(EXCLUSIVE)", "journal_mode(OFF)", "synchronous(OFF)", "cache_size(-16384)")
	return err
}

// prepare makes the schema, but without indexes, which are made quicker at the end, and triggers, which would leave marks.
func (t *sqliteTarget) prepare(ctx context.Context) error {
	err := makeSchema(ctx, models.Options{URL: "sqlite:" + t.file.temporary, Timeout: 2 * copyBusy})
	if err != nil {
		return err
	}
	if err := t.open(ctx); err != nil {
		return err
	}
	var drop string
	err = t.QueryRowContext(ctx, `SELECT group_concat(sql, ';'), group_concat('DROP ' || type || ' ' || name, ';')
		FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL`).Scan(&t.restore, &drop)
	if err != nil {
		return err
	}
	return t.Exec(ctx, drop)
}

// syncEvery is after how many rows a new file is put on disk. If all of it were put there at the end, every commit of a database on the
// same disk would wait behind it for seconds.
const syncEvery = 100_000

func (t *sqliteTarget) write(ctx context.Context, table table, rows iter.Seq2[[]any, error]) error {
	if err := t.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	insert, err := t.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", table.Name, strings.Join(table.names, ", "), strings.Repeat(", ?", len(table.names)-1)))
	if err != nil {
		return err
	}
	defer insert.Close()
	n := 0
	for row, err := range rows {
		if err != nil {
			return err
		}
		if _, err := insert.Exec(row...); err != nil {
			return fmt.Errorf("%w, in the row with %s", err, table.identify(row))
		}
		if n++; n%syncEvery == 0 {
			if err := t.file.f.Sync(); err != nil {
				return err
			}
		}
	}
	return t.Exec(ctx, "COMMIT")
}

func (t *sqliteTarget) finish(ctx context.Context) error {
	if err := t.Exec(ctx, t.restore); err != nil {
		return err
	}
	return t.checkForeignKeys(ctx)
}

func (t *sqliteTarget) commit(context.Context) error {
	t.Close() // SQLite then has written everything, and has no descriptor of the file any more
	return t.file.publish()
}

func (t *sqliteTarget) close() {
	if t.sqliteSide != nil {
		t.Close()
	}
	t.file.discard()
}
