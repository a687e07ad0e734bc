package copydb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"
	"sync"
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

func (s *sqliteSide) columns() string {
	return "SELECT name, type FROM pragma_table_info('%s') ORDER BY name"
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

// checkForeignKeys returns an error if a row refers to one that does not exist. SQLite checks foreign keys only
// on connections that ask for it, so a file may have such rows.
func (s *sqliteSide) checkForeignKeys(ctx context.Context) error {
	var broken int
	var table, parent string
	err := s.QueryRowContext(ctx, `SELECT "table", parent, count(*) OVER () FROM pragma_foreign_key_check LIMIT 1`).Scan(&table, &parent, &broken)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%d rows refer to none, as one of %s to %s: the sqlite3 shell shows them with PRAGMA foreign_key_check", broken, table, parent)
}

// sqliteSource is a snapshot of a file: a read transaction, which in WAL mode sees one state and keeps nobody
// from writing.
type sqliteSource struct {
	*sqliteSide
	file  string
	owner string // another process that has the file open
	held  func() // lets others write again; nil while they can
}

func openSQLiteSource(ctx context.Context, file string) (*sqliteSource, error) {
	if info, err := os.Stat(file); err != nil { // SQLite would say that it is unable to open the file
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	owner := sqlite.WhoHasOpen(file) // before this connection makes a -shm of its own
	side, err := openSQLite(ctx, file, "query_only(1)")
	if err != nil {
		return nil, err
	}
	s := &sqliteSource{sqliteSide: side, file: file, owner: owner}
	if err := s.Exec(ctx, takeSnapshot); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// takeSnapshot reads something, because SQLite takes the snapshot at the first reading of a transaction, not at
// BEGIN.
const takeSnapshot = "BEGIN; SELECT count(*) FROM sqlite_schema"

// renew takes a newer snapshot.
func (s *sqliteSource) renew(ctx context.Context) error {
	return s.Exec(ctx, "ROLLBACK; "+takeSnapshot)
}

// hold keeps everybody from writing until close, and then takes a newer snapshot, which is the last state.
func (s *sqliteSource) hold(ctx context.Context) (err error) {
	if s.held, err = s.holdWrites(ctx); err != nil {
		return err
	}
	return s.renew(ctx)
}

// holdWrites keeps everybody from writing until release is called, which may be called more than once. If hold
// does so already, release does nothing.
//
// BEGIN IMMEDIATE succeeds even if this process may only read the file; the write behind it, which changes no
// row, shows that.
func (s *sqliteSource) holdWrites(ctx context.Context) (release func(), err error) {
	if s.held != nil {
		return func() {}, nil
	}
	locker, err := openSQLite(ctx, s.file)
	if err != nil {
		return nil, err
	}
	if err = locker.Exec(ctx, "BEGIN IMMEDIATE"); err == nil {
		err = locker.Exec(ctx, "DELETE FROM compatibility WHERE false")
	}
	if err != nil {
		locker.Close()
		return nil, err
	}
	return sync.OnceFunc(locker.Close), nil
}

func (s *sqliteSource) users(context.Context) string {
	if s.owner == "" {
		return ""
	}
	if s.held != nil {
		return s.owner + " has the database open, and can write to it again when this process ends"
	}
	return s.owner + " has the database open: what it writes from now on is not in the copy, and its write-ahead log grows until the copy is done. To move to the copy, stop it first"
}

func (s *sqliteSource) close() {
	if s.held != nil {
		s.held()
	}
	s.Close()
}

// sqliteTarget is a file that is being made under another name.
type sqliteTarget struct {
	*sqliteSide // nil while it is closed
	file        *newFile
	restore     string // statements that make the dropped indexes and triggers
}

// whileMade are pragmas of a file that nobody sees before it is whole. A copy that is killed begins anew, so the file needs no journal.
var whileMade = []string{"locking_mode(EXCLUSIVE)", "journal_mode(OFF)", "synchronous(OFF)"}

// openSQLiteTarget makes a file with the schema, but without indexes, which are made quicker at the end, and triggers, which would leave
// marks.
func openSQLiteTarget(ctx context.Context, file string) (*sqliteTarget, error) {
	f, err := createNewFile(file)
	if err != nil {
		return nil, err
	}
	t := &sqliteTarget{file: f}
	if err := t.prepare(ctx); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *sqliteTarget) prepare(ctx context.Context) error {
	err := makeSchema(ctx, models.Options{URL: "sqlite:" + t.file.temporary, Timeout: 2 * copyBusy})
	if err != nil {
		return err
	}
	if t.sqliteSide, err = openSQLite(ctx, t.file.temporary, append(whileMade, "foreign_keys(0)", "cache_size(-32768)")...); err != nil {
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

func (t *sqliteTarget) write(ctx context.Context, table table, rows iter.Seq2[[]any, error]) error {
	if err := t.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	insert, err := t.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", table.Name, strings.Join(table.names, ", "), strings.Repeat(", ?", len(table.names)-1)))
	if err != nil {
		return err
	}
	defer insert.Close()
	for row, err := range rows {
		if err != nil {
			return err
		}
		if _, err := insert.Exec(row...); err != nil {
			return fmt.Errorf("%w, in the row with %s", err, table.identify(row))
		}
	}
	return t.Exec(ctx, "COMMIT")
}

func (t *sqliteTarget) finish(ctx context.Context) error {
	// Making an index sorts, and sorting takes several times the memory of the cache.
	if err := t.Exec(ctx, "PRAGMA cache_size = -16384; "+t.restore); err != nil {
		return err
	}
	return t.checkForeignKeys(ctx)
}

func (t *sqliteTarget) commit(context.Context) error {
	t.closeSide() // SQLite then has written everything, and has no descriptor of the file any more
	return t.file.publish()
}

func (t *sqliteTarget) closeSide() {
	if t.sqliteSide != nil {
		t.Close()
		t.sqliteSide = nil
	}
}

func (t *sqliteTarget) close() {
	t.closeSide()
	t.file.discard()
}
