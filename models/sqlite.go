package models

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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
		"_texttotime":  {"1"},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
			"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		},
	}.Encode()
}

func sqliteDialect(file *databaseFile, timeout time.Duration) dialect {
	dsn := sqliteDSN(file.uri, timeout/2) // the other half is for waiting in this process
	return dialect{
		name:           "sqlite",
		goose:          goose.DialectSQLite3,
		isFile:         true,
		writableQuery:  "SELECT true",
		oldSchemaQuery: "SELECT count(*) > 0 AND max(name = 'skeleton') = 0 FROM pragma_table_info('users')",
		hasTableQuery:  "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = ?",
		connect:        func() (*sql.DB, error) { return openSQLiteFile(file, dsn) },
		gorm: func(db *sql.DB) gorm.Dialector {
			return sqliteDialector{pool: stmtCache{db, new(sync.Map)}}
		},
		blob:          "BLOB",
		joinUsernames: "group_concat(username, char(10))",
		anyOf:         "IN (SELECT value FROM json_each(?))",
		rows:          rowsInSQLite,
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

// stmtCache is the connection pool of SQLite, below GORM (gorm.ConnPool). It has SQLite compile each statement once for
// each connection; the statements of this package are few. GORM's own cache, PrepareStmt, starts a goroutine that never
// ends, and after a day it closes a statement that somebody may be about to use.
type stmtCache struct {
	gorm.ConnPool
	stmts *sync.Map // *sql.Stmt by text
}

// prepared is nil where preparing fails: running the text then fails in the same way.
func (c stmtCache) prepared(ctx context.Context, query string) *sql.Stmt {
	if stmt, ok := c.stmts.Load(query); ok {
		return stmt.(*sql.Stmt)
	}
	stmt, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	if first, raced := c.stmts.LoadOrStore(query, stmt); raced {
		stmt.Close()
		return first.(*sql.Stmt)
	}
	return stmt
}

// ExecContext implements gorm.ConnPool.
func (c stmtCache) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := c.prepared(ctx, query); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return c.ConnPool.ExecContext(ctx, query, args...)
}

// QueryContext implements gorm.ConnPool.
func (c stmtCache) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := c.prepared(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return c.ConnPool.QueryContext(ctx, query, args...)
}

// sqliteWriter is the connection that writes, as GORM uses it (gorm.ConnPool), and the transaction of a batch on it. Only
// the goroutine of the batchWriter uses it. Its statements have no deadline: they are over in the time of a sync, and an
// interrupt would take back the whole batch.
type sqliteWriter struct {
	stmtCache // of the connection, once it is open
	db        *sql.DB
	file      *databaseFile
	addedLog  bool // file knows the log that is open
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
	hold := s.maxWait() / 4
	checkpoints, err := openSQLiteFile(s.file, sqliteDSN(path, hold/2))
	if err != nil {
		return err
	}
	writer := newBatchWriter(commits)
	s.writer = pool{gorm: g, sql: db, limiter: writer}
	s.file.write = func(ctx context.Context) error {
		err := ErrUnavailable // when ctx ends first
		writer.pause(ctx, func() { err = commits.probe(ctx) })
		return err
	}
	s.wal = newWAL(path, checkpoints, hold, s.reader.limiter.(semaphoreLimiter), writer, commits)
	return nil
}

// dataVersion is that of the connection that writes, asked between two batches.
func (s *Store) dataVersion(ctx context.Context) (version int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.maxWait())
	defer cancel()
	err = ErrBusy
	s.writer.limiter.(batchWriter).pause(ctx, func() { version, err = s.wal.commits.dataVersion() })
	return version, err
}

func (w *sqliteWriter) exec(statement string) error {
	_, err := w.ExecContext(context.Background(), statement)
	return classify(err)
}

// open opens the connection, if it is not.
func (w *sqliteWriter) open() error {
	if w.ConnPool != nil {
		return nil
	}
	conn, err := w.db.Conn(context.Background())
	if err != nil {
		return classify(err)
	}
	w.stmtCache = stmtCache{conn, new(sync.Map)}
	return nil
}

func (w *sqliteWriter) begin() error {
	if err := w.file.admit(); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	err := w.exec("BEGIN IMMEDIATE")
	if err == nil && !w.addedLog { // the transaction has opened it
		w.addedLog = true
		w.file.addLog()
	}
	return err
}

func (w *sqliteWriter) mark() error { return w.exec("SAVEPOINT job") }
func (w *sqliteWriter) keep() error { return w.exec("RELEASE job") }

func (w *sqliteWriter) undo() error {
	if err := w.exec("ROLLBACK TO job"); err != nil {
		return err
	}
	return w.keep()
}

// commit also fails, too late to take anything back, when the file is no longer the one that the path names: what was
// written will be gone with it.
func (w *sqliteWriter) commit() error {
	if err := w.exec("COMMIT"); err != nil {
		w.rollback()
		return err
	}
	return w.file.checkCommit()
}

// probe writes a page of the database, and changes nothing.
func (w *sqliteWriter) probe(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	var version int
	err := classify(w.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version))
	if err == nil {
		err = w.exec(fmt.Sprintf("PRAGMA user_version = %d", version))
	}
	if err != nil {
		w.rollback()
		return err
	}
	return w.commit()
}

// checkpoint sets whether commits copy the log into the database, as they do by default once it has 1000 frames.
func (w *sqliteWriter) checkpoint(on bool) {
	if w.ConnPool == nil {
		return
	}
	if on {
		w.exec("PRAGMA wal_autocheckpoint = 1000")
	} else {
		w.exec("PRAGMA wal_autocheckpoint = 0")
	}
}

// dataVersion returns a number that changes with the commits of others, in this process and in others, and not with those
// of this connection (sqlite.org/pragma.html#pragma_data_version).
func (w *sqliteWriter) dataVersion() (version int64, err error) {
	if err := w.open(); err != nil {
		return 0, err
	}
	rows, err := w.QueryContext(context.Background(), "PRAGMA data_version")
	if err != nil {
		return 0, classify(err)
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, classify(cmp.Or(rows.Err(), sql.ErrNoRows))
	}
	return version, classify(cmp.Or(rows.Scan(&version), rows.Close()))
}

// rollback ends the transaction, if SQLite has not done so itself.
func (w *sqliteWriter) rollback() { w.exec("ROLLBACK") }

func (w *sqliteWriter) close() {
	if conn, ok := w.ConnPool.(*sql.Conn); ok {
		w.stmts.Range(func(_, stmt any) bool { // database/sql leaves those of one connection open
			stmt.(*sql.Stmt).Close()
			return true
		})
		conn.Close()
	}
}

// Commit and Rollback show GORM that there is a transaction already (gorm.TxCommitter). It never calls them.
func (w *sqliteWriter) Commit() error   { return errors.ErrUnsupported }
func (w *sqliteWriter) Rollback() error { return errors.ErrUnsupported }

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
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var row listRow
	into := []any{row.key(len(columns)), &row.at, (*sql.RawBytes)(&row.name), (*sql.RawBytes)(&row.description), (*sql.RawBytes)(&row.usernames)}
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

func createInSQLite(tx *gorm.DB, caller Caller, e Event, now any) error {
	return tx.Transaction(func(tx *gorm.DB) error {
		res := tx.Exec(`
			INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
			SELECT ?, ?, id, ?, ?, ?, ? FROM users WHERE id = ? AND ?`,
			e.ID, e.WorldID, e.Name, e.Description, e.ScheduledAt, now, caller.UserID, caller.isActive())
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return ErrSignedOut
		}
		return tx.Exec(`
			INSERT INTO rsvps (event_number, created_at, user_number, username)
			SELECT last_insert_rowid(), ?, number, username FROM users WHERE id = ?`,
			now, caller.UserID).Error
	})
}
