package models

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	_ "modernc.org/sqlite" // the driver "sqlite", without cgo
)

// sqliteReaders is the size of the pool of readers. Writers are one: SQLite has one write lock, and a queue in this
// process is fair and never fails, where many connections that want the lock fail with SQLITE_BUSY.
const sqliteReaders = 8

// sqliteReadOnlyDSN is how a file is opened that must not change.
func sqliteReadOnlyDSN(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&_pragma=busy_timeout(1000)"
}

// sqliteDSN is how a file is opened. Its connections wait for other processes, and for each other, no longer than busy.
func sqliteDSN(path string, busy time.Duration) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{
		"mode":         {"rw"},        // the file is made by createPrivate
		"_txlock":      {"immediate"}, // else a transaction that reads first fails when it wants to write
		"_time_format": {"sqlite"},
		"_timezone":    {"UTC"},
		"_pragma":      {fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds())},
	}.Encode()
}

// sqliteSettings are those of each connection, once it is known to have the right file: they open its log, and the first
// connection of all writes to the file.
const sqliteSettings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = 1"

func sqliteDialect(file *databaseFile, timeout time.Duration) dialect {
	dsn := sqliteDSN(file.uri, timeout/2) // the other half is for waiting in this process
	return dialect{
		name:           "sqlite",
		goose:          goose.DialectSQLite3,
		isFile:         true,
		writableQuery:  "SELECT true",
		oldSchemaQuery: "SELECT count(*) > 0 AND max(name = 'skeleton') = 0 FROM pragma_table_info('users')",
		triggersQuery:  "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('events', 'rsvps') AND name LIKE 'changes\\_%' ESCAPE '\\'",
		triggers:       7,
		hasTableQuery:  "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = ?",
		connect:        func() (*sql.DB, error) { return openSQLiteFile(file, dsn) },
		gorm: func(db *sql.DB) gorm.Dialector {
			return sqliteDialector{pool: stmtCache{db, new(sync.Map)}}
		},
		blob:          "BLOB",
		time:          "text",
		joinUsernames: "group_concat(username, char(10))",
		moments:       sqliteMoments,
		randomID:      "lower(printf('%s-%s-%s-%s-%s', hex(randomblob(4)), hex(randomblob(2)), hex(randomblob(2)), hex(randomblob(2)), hex(randomblob(6))))",
		anyOf:         "IN (SELECT value FROM json_each(?))",
		callers:       "(SELECT key + 1 AS n, value ->> 0 AS user_id, value ->> 1 AS session_id FROM json_each(?))",
		parameters:    func(query string) string { return query },
		rows:          rowsInSQLite,
		snapshot:      snapshotInSQLite,
		create:        createInSQLite,
		withMigrationLock: func(tx *gorm.DB, fn func() error) error {
			// Each migration is a transaction with the write lock, so of several processes one applies it and the
			// others fail on what is already there; then there is nothing left to do.
			var err error
			for range 10 {
				if err = fn(); err == nil || tx.Statement.Context.Err() != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			return err
		},
	}
}

// openSQLite makes the pool of the one connection that writes, that of readers, and what keeps the log small.
func (s *Store) openSQLite(path string) error {
	db, err := s.dialect.connect()
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	commits := &sqliteWriter{db: db, file: s.file}
	g, err := openGORM(sqliteDialector{pool: commits})
	if err != nil {
		return err
	}
	if s.reader, err = newPool(s.dialect, sqliteReaders); err != nil {
		return err
	}
	hold := s.maxWait / 4
	checkpoints, err := openSQLiteFile(s.file, sqliteDSN(path, hold/2))
	if err != nil {
		return err
	}
	writer := newBatcher(savepoints{commits}, 1)
	s.writes = writer
	s.writer = pool{gorm: g, sql: db, limiter: writer}
	s.file.write = func(ctx context.Context) error {
		err := ErrUnavailable // when ctx ends first
		writer.pause(ctx, func() { err = commits.probe(ctx) })
		return err
	}
	s.wal = newWAL(path, checkpoints, hold, s.reader.limiter.(semaphoreLimiter), writer, commits)
	return nil
}

// sqliteDialector is GORM's own for SQLite. That asks for the version of SQLite when it starts, which here must not open
// the file yet: a database in memory tells the same. It imports a second SQLite, written in C, which builds without cgo
// leave out, and which no build uses.
type sqliteDialector struct {
	sqlite.Dialector
	pool gorm.ConnPool
}

// Initialize implements gorm.Dialector.
func (d sqliteDialector) Initialize(db *gorm.DB) error {
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer memory.Close()
	d.Conn = memory
	err = d.Dialector.Initialize(db)
	db.ConnPool = d.pool
	return err
}

func rowsInSQLite(tx *gorm.DB, query string, args []any, each func(*listRow) (more bool)) error {
	rows, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context, query, args...)
	return eachRowOfSQLite(rows, err, each)
}

// eachRowOfSQLite calls each with the rows of a query, until it wants no more. It closes them.
func eachRowOfSQLite(rows *sql.Rows, err error, each func(*listRow) (more bool)) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var row listRow
	into := []any{&row.id, &row.at}
	for i := range row.texts {
		into = append(into, (*sql.RawBytes)(&row.texts[i]))
	}
	for rows.Next() {
		if err := rows.Scan(into[:len(columns)]...); err != nil {
			return err
		}
		if !each(&row) {
			break
		}
	}
	return rows.Err()
}

func snapshotInSQLite(tx *gorm.DB, fn func(rows rowsFunc) error) error {
	ctx := tx.Statement.Context
	pool := tx.Statement.ConnPool.(stmtCache).ConnPool.(*sql.DB)
	snapshot, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // which does not wait for the lock of writers
	if err != nil {
		return err
	}
	defer snapshot.Rollback()
	return fn(func(query string, args []any, each func(*listRow) (more bool)) error {
		rows, err := snapshot.QueryContext(ctx, query, args...)
		return eachRowOfSQLite(rows, err, each)
	})
}
