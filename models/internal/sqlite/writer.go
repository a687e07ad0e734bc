package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// Writing is the writing side of a file: one connection, transactions that writes share, and a log that is kept small.
type Writing struct {
	DB      *sql.DB // of the one connection
	GORM    gorm.Dialector
	Batches *batch.Batcher
	WAL     *WAL
}

// OpenWriting prepares the writing. A connection waits at most busy for other processes; emptying the log stops writes for at most hold.
func (f *File) OpenWriting(busy, hold time.Duration) (w Writing, err error) {
	if w.DB, err = f.OpenPool(busy); err != nil {
		return w, err
	}
	w.DB.SetMaxOpenConns(1)
	checkpoints, err := f.OpenPool(hold)
	if err != nil {
		return w, err
	}
	commits := &writer{db: w.DB, file: f}
	w.GORM, w.Batches = dialector{commits}, batch.New(batch.Savepoints{Tx: commits}, false)
	f.write = func(ctx context.Context) error {
		giveUp := time.Now().Add(busy)
		return w.Batches.Do(ctx, giveUp, giveUp, func() error { return commits.exec("PRAGMA user_version = 0") })
	}
	w.WAL = newWAL(f, checkpoints)
	return w, nil
}

// statements is the connection pool of SQLite, below GORM (gorm.ConnPool). It compiles each statement once per connection, which works
// because this program has few different ones. GORM's own cache, PrepareStmt, starts a goroutine that never ends, and after a day closes a
// statement that somebody may be about to use.
type statements struct {
	gorm.ConnPool
	stmts *sync.Map // *sql.Stmt by text
}

// prepared returns the compiled statement, or nil if that fails: running the text then fails with the same error.
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

func (c statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := c.prepared(ctx, query); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return c.ConnPool.ExecContext(ctx, query, args...)
}

func (c statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := c.prepared(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return c.ConnPool.QueryContext(ctx, query, args...)
}

// writer is the writing connection for GORM (gorm.ConnPool), and the transaction of a batch on it. Only the goroutine of a batch uses it.
// Its statements have no deadline: they take no longer than a sync of the disk, and an interruption would take back the whole batch.
type writer struct {
	statements // of the connection, once it is open
	db         *sql.DB
	file       *File
}

func (w *writer) exec(statement string) error {
	_, err := w.ExecContext(context.Background(), statement)
	return dberr.Classify(err)
}

func (w *writer) Begin() error {
	if err := w.file.admit(); err != nil {
		return err
	}
	if w.ConnPool == nil {
		conn, err := w.db.Conn(context.Background())
		if err != nil {
			return dberr.Classify(err)
		}
		w.statements = statements{conn, new(sync.Map)}
		w.file.addLog()
	}
	return w.exec("BEGIN IMMEDIATE")
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

// Commit also fails if the disk does not confirm what is in the log by then, or has no room for its index, or if the path no longer leads
// to the file. That is too late to take anything back: the writes reappear if the process ends before it writes anything else, or once
// somebody has moved the file back. So the callers must hear neither of success, nor that nothing has happened.
func (w *writer) Commit() error {
	err := w.exec("COMMIT")
	if err != nil {
		w.Rollback()
		if !isInLog(err) {
			return err
		}
	} else {
		err = w.file.check()
	}
	if err != nil {
		w.file.Fail(err)
		return fmt.Errorf("%w: perhaps committed, but %v", dberr.ErrUnavailable, err)
	}
	return nil
}

// Rollback ends the transaction, unless SQLite has done so. Rollback and Commit show GORM that it is in a transaction (gorm.TxCommitter).
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
