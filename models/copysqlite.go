package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// copyBusy is how long a copy waits for other processes that use its SQLite file.
const copyBusy = 10 * time.Second

// copyDSN opens a file for a copy. The form of times is that of sqliteDSN.
func copyDSN(file string, pragmas ...string) string {
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + url.Values{
		"mode": {"rw"}, "_time_format": {"sqlite"}, "_timezone": {"UTC"}, "_texttotime": {"1"},
		"_pragma": append(pragmas, fmt.Sprintf("busy_timeout(%d)", copyBusy.Milliseconds())),
	}.Encode()
}

// sqliteSide is a connection to a SQLite file.
type sqliteSide struct {
	db   *sql.DB
	conn *sql.Conn
	// lenient lets values be anything, for they stay in SQLite.
	lenient bool
}

func openSQLiteSide(ctx context.Context, file string, pragmas ...string) (*sqliteSide, error) {
	db, err := sql.Open("sqlite", copyDSN(file, pragmas...))
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &sqliteSide{db: db, conn: conn}, nil
}

func (s *sqliteSide) close() {
	s.conn.Close()
	s.db.Close()
}

func (s *sqliteSide) exec(ctx context.Context, statement string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, statement, args...)
	return err
}

func (s *sqliteSide) value(ctx context.Context, into any, query string, args ...any) error {
	return s.conn.QueryRowContext(ctx, query, args...).Scan(into)
}

// texts returns the rows of a query for one text.
func (s *sqliteSide) texts(ctx context.Context, query string, args ...any) (texts []string, err error) {
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

func (s *sqliteSide) columns(ctx context.Context, table string) (columns []copyColumn, err error) {
	rows, err := s.conn.QueryContext(ctx, "SELECT name, type FROM pragma_table_info(?)", table)
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

func (s *sqliteSide) count(ctx context.Context, table string) (n int64, err error) {
	return n, s.value(ctx, &n, "SELECT count(*) FROM "+table)
}

func (s *sqliteSide) read(ctx context.Context, table string, columns []copyColumn, order string, each func(copyRow) error) error {
	if order != "" {
		order = " ORDER BY " + order
	}
	rows, err := s.conn.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s%s", columnList(columns), table, order))
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

// encode makes a row of values. The row's bytes are in text, which may have moved.
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

// identify names a row by its numbers and its id, which are nobody's secrets.
func identify(columns []copyColumn, values []any) string {
	var parts []string
	for i, c := range columns {
		if c.name == "id" || c.name == "number" || strings.HasSuffix(c.name, "_number") {
			parts = append(parts, fmt.Sprintf("%s %v", c.name, values[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// schema returns the version of the schema, 0 if there is none.
func (s *sqliteSide) schema(ctx context.Context) (version int64, err error) {
	var there bool
	err = s.value(ctx, &there, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'goose_db_version')")
	if err == nil && there {
		err = s.value(ctx, &version, schemaQuery)
	}
	return version, err
}

// checkForeignKeys returns an error if a row refers to none.
func (s *sqliteSide) checkForeignKeys(ctx context.Context) error {
	var broken int
	var table, parent string
	err := s.conn.QueryRowContext(ctx, `SELECT "table", parent, count(*) OVER () FROM pragma_foreign_key_check LIMIT 1`).Scan(&table, &parent, &broken)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%d rows refer to none, as one of %s to %s: the sqlite3 shell shows them with PRAGMA foreign_key_check", broken, table, parent)
}

// sqliteSource is a snapshot of a file.
type sqliteSource struct {
	*sqliteSide
	file  string
	owner string // another process that has it open
}

func openSQLiteSource(ctx context.Context, file string) (*sqliteSource, error) {
	if info, err := os.Stat(file); err != nil { // SQLite would say that it is unable to open the file
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	owner := whoHasOpen(file) // before SQLite opens it: closing a file drops this process's locks
	side, err := openSQLiteSide(ctx, file, "query_only(1)")
	if err != nil {
		return nil, err
	}
	version, err := side.schema(ctx)
	if err == nil {
		err = checkSourceSchema(version)
	}
	if err != nil {
		side.close()
		return nil, err
	}
	s := &sqliteSource{side, file, owner}
	if err := s.begin(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// begin takes the snapshot, which SQLite does at the first reading.
func (s *sqliteSource) begin(ctx context.Context) error {
	if err := s.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	var n int
	return s.value(ctx, &n, "SELECT count(*) FROM sqlite_schema")
}

// renew takes the snapshot anew.
func (s *sqliteSource) renew(ctx context.Context) error {
	if err := s.exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	return s.begin(ctx)
}

// holdWrites keeps everybody from writing until release is called, once or more often.
func (s *sqliteSource) holdWrites(ctx context.Context) (release func(), err error) {
	locker, err := openSQLiteSide(ctx, s.file)
	if err != nil {
		return nil, err
	}
	if err := locker.exec(ctx, "BEGIN IMMEDIATE"); err != nil && !isReadOnly(err) { // else nobody writes anyway
		locker.close()
		return nil, err
	}
	return sync.OnceFunc(locker.close), nil
}

func isReadOnly(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_READONLY
}

func (s *sqliteSource) users(context.Context) string {
	if s.owner == "" {
		return ""
	}
	return s.owner + " has the database open: what it writes from now on is not in the copy, and its write-ahead log grows until the copy is done. To move to the copy, stop it first"
}

// sqliteTarget is a file that is being made, under another name.
type sqliteTarget struct {
	*sqliteSide
	file    *newFile
	indexes []string // makes those that were dropped
}

// openSQLiteTarget makes a file with a schema for rows, or one that is to be a copy of another SQLite file.
func openSQLiteTarget(ctx context.Context, file string, source *sqliteSource) (copyTarget, error) {
	if source != nil && sameFile(file, source.file) {
		return nil, errSameDatabase
	}
	f, err := createNewFile(file)
	if err != nil {
		return nil, err
	}
	if source != nil {
		source.lenient = true
		return &sqliteFileCopy{sqliteTarget{file: f}, source}, nil
	}
	t := &sqliteTarget{file: f}
	if err := t.prepare(ctx); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// prepare makes the schema, without those indexes that are quicker made once the rows are there.
func (t *sqliteTarget) prepare(ctx context.Context) error {
	store, err := Open(Options{URL: "sqlite:" + t.file.temporary, Timeout: 2 * copyBusy})
	if err != nil {
		return err
	}
	err = store.Migrate(ctx)
	store.Close()
	if err != nil {
		return err
	}
	// Nobody sees the file before it is whole, so it needs no journal.
	t.sqliteSide, err = openSQLiteSide(ctx, t.file.temporary, "locking_mode(EXCLUSIVE)", "journal_mode(OFF)", "synchronous(OFF)", "foreign_keys(0)", "cache_size(-32768)")
	if err != nil {
		return err
	}
	const indexes = "FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
	if t.indexes, err = t.texts(ctx, "SELECT sql "+indexes); err != nil {
		return err
	}
	drop, err := t.texts(ctx, "SELECT 'DROP INDEX ' || name "+indexes)
	if err != nil {
		return err
	}
	for _, statement := range drop {
		if err := t.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (t *sqliteTarget) fill(ctx context.Context, table string, columns []copyColumn, rows func(each func(copyRow) error) error) error {
	if err := t.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	insert, err := t.conn.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", table, columnList(columns), strings.Repeat(", ?", len(columns)-1)))
	if err != nil {
		return err
	}
	defer insert.Close()
	values := make([]any, len(columns))
	err = rows(func(row copyRow) error {
		var failed error
		for i, value := range row {
			decoded, err := columns[i].kind.decode(value)
			if err != nil {
				failed = fmt.Errorf("%s %w", columns[i].name, err)
			}
			values[i] = decoded
		}
		if failed == nil {
			_, failed = insert.Exec(values...)
		}
		if failed != nil {
			return fmt.Errorf("%w, in the row with %s", failed, identify(columns, values))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.exec(ctx, "COMMIT")
}

func (t *sqliteTarget) finish(ctx context.Context) error {
	// Sorting takes several times the memory of the cache.
	for _, statement := range append([]string{"PRAGMA cache_size = -16384"}, t.indexes...) {
		if err := t.exec(ctx, statement); err != nil {
			return err
		}
	}
	return t.checkForeignKeys(ctx)
}

func (t *sqliteTarget) commit(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.closeSide() // no other descriptor of the file may be open, or hold what is not written
	return t.file.publish()
}

func (t *sqliteTarget) closeSide() {
	if t.sqliteSide != nil {
		t.sqliteSide.close()
		t.sqliteSide = nil
	}
}

func (t *sqliteTarget) close() {
	t.closeSide()
	t.file.discard()
}

// sqliteFileCopy is a SQLite file that becomes a copy of another.
type sqliteFileCopy struct {
	sqliteTarget
	source *sqliteSource
}

// vacuum makes the copy with VACUUM INTO, which takes along all that the file has, but for what deleted rows have left. It
// reports which part of the copy is there.
func (t *sqliteFileCopy) vacuum(ctx context.Context, report func(part float64)) error {
	from, err := openSQLiteSide(ctx, t.source.file)
	if err != nil {
		return err
	}
	defer from.close()
	var size float64
	err = from.value(ctx, &size, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size")
	if err != nil {
		return err
	}
	unlock, err := t.source.holdWrites(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.source.renew(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- from.exec(ctx, "VACUUM INTO ?", t.file.temporary) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if info, err := os.Stat(t.file.temporary); err == nil && info.Size() > 0 {
				unlock() // the copy is being written, so it reads what the snapshot shows
				report(min(float64(info.Size())/size, 1))
			}
		}
	}
}

func (t *sqliteFileCopy) finish(ctx context.Context) (err error) {
	if t.sqliteSide, err = openSQLiteSide(ctx, t.file.temporary, "locking_mode(EXCLUSIVE)"); err != nil {
		return err
	}
	t.lenient = true
	return t.checkForeignKeys(ctx)
}
