package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// statements is the connection pool of SQLite, below GORM (gorm.ConnPool). It compiles each statement once per
// connection, which works because this program has few different ones. GORM's own cache, PrepareStmt, starts a
// goroutine that never ends, and after a day closes a statement that somebody may be about to use.
type statements struct {
	gorm.ConnPool
	stmts *sync.Map // *sql.Stmt by text
}

// prepared returns the compiled statement, or nil if that fails: running the text then fails in the same way,
// with the same error.
func (c statements) prepared(ctx context.Context, query string) *sql.Stmt {
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
func (c statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := c.prepared(ctx, query); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return c.ConnPool.ExecContext(ctx, query, args...)
}

// QueryContext implements gorm.ConnPool.
func (c statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := c.prepared(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return c.ConnPool.QueryContext(ctx, query, args...)
}

// writer is the writing connection, as GORM uses it (gorm.ConnPool), and the transaction of a batch on it. Only
// the goroutine that runs a batch uses it. Its statements have no deadline: they take no longer than a sync of
// the disk, and interrupting one would take back the whole batch.
type writer struct {
	statements // of the connection, once it is open
	db         *sql.DB
	file       *File
	addedLog   bool // file knows the log that is open
}

func (w *writer) exec(statement string) error {
	_, err := w.ExecContext(context.Background(), statement)
	return dberr.Classify(err)
}

// open opens the connection, unless it is open.
func (w *writer) open() error {
	if w.ConnPool != nil {
		return nil
	}
	conn, err := w.db.Conn(context.Background())
	if err != nil {
		return dberr.Classify(err)
	}
	w.statements = statements{conn, new(sync.Map)}
	return nil
}

func (w *writer) Begin() error {
	if err := w.file.admit(); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	err := w.exec("BEGIN IMMEDIATE")
	if err == nil && !w.addedLog { // the transaction has opened the log
		w.addedLog = true
		w.file.addLog()
	}
	return err
}

func (w *writer) Mark() error { return w.exec("SAVEPOINT job") }
func (w *writer) Keep() error { return w.exec("RELEASE job") }

func (w *writer) Apply(change *batch.Write) (changed bool, err error) {
	changed, err = change.Run(w)
	return changed, dberr.Classify(err)
}

func (w *writer) Undo() error {
	if err := w.exec("ROLLBACK TO job"); err != nil {
		return err
	}
	return w.Keep()
}

// Commit also fails if the path no longer leads to the file. That is too late to take anything back: what was
// written is gone with the file, or there again once somebody has moved the file back. So nobody may be told of
// success, nor that nothing has happened.
func (w *writer) Commit() error {
	if err := w.exec("COMMIT"); err != nil {
		w.Rollback()
		return err
	}
	if err := w.file.checkCommit(); err != nil {
		w.file.Fail(err)
		return fmt.Errorf("%w: committed, but %v", dberr.ErrUnavailable, err)
	}
	return nil
}

// probe writes a page of the database and changes nothing.
func (w *writer) probe(ctx context.Context) error {
	if err := w.Begin(); err != nil {
		return err
	}
	var version int
	err := dberr.Classify(w.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version))
	if err == nil {
		err = w.exec(fmt.Sprintf("PRAGMA user_version = %d", version))
	}
	if err != nil {
		w.Rollback()
		return err
	}
	return w.Commit()
}

// checkpoint sets whether commits copy the log into the database. By default SQLite does so once the log has
// 1000 frames.
func (w *writer) checkpoint(on bool) {
	if w.ConnPool == nil {
		return
	}
	if on {
		w.exec("PRAGMA wal_autocheckpoint = 1000")
	} else {
		w.exec("PRAGMA wal_autocheckpoint = 0")
	}
}

// Rollback ends the transaction, unless SQLite has done so itself. That there are Rollback and Commit tells
// GORM that it is in a transaction (gorm.TxCommitter).
func (w *writer) Rollback() error { return w.exec("ROLLBACK") }

func (w *writer) Close() {
	if conn, ok := w.ConnPool.(*sql.Conn); ok {
		w.stmts.Range(func(_, stmt any) bool { // database/sql leaves those of one connection open
			stmt.(*sql.Stmt).Close()
			return true
		})
		conn.Close()
	}
}
