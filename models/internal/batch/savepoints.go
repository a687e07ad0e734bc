package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"worldevents/models/internal/dberr"
)

// Savepoints is SQLite's Transactor. Each job of a batch has a savepoint (sqlite.org/lang_savepoint.html), so a failed job takes back only
// its own changes. If the commit fails, all jobs of the batch have failed, also those that only read another one's changes.
type Savepoints struct{ Tx Transaction }

// Acquire has nothing to wait for: SQLite has one writing connection, which one goroutine at a time uses.
func (Savepoints) Acquire(context.Context, time.Time) error { return nil }
func (Savepoints) Release()                                 {}
func (s Savepoints) Transact(batch []*Job)                  { runBatch(s.Tx, batch) }
func (s Savepoints) Close()                                 { s.Tx.Close() }

// Transaction is the transaction of a batch. After an error of any method but Keep and Undo it is not open.
type Transaction interface {
	Begin() error
	// Mark begins what Keep or Undo ends.
	Mark() error
	Apply(w *Write) (changed bool, err error)
	Keep() error
	Undo() error
	Commit() error
	Rollback() error
	Close()
}

// runBatch runs the jobs in one transaction and then ends them. A job whose caller leaves while Begin waits for another process never runs.
func runBatch(tx Transaction, batch []*Job) {
	err := tx.Begin()
	if err == nil {
		batch = Begin(batch)
		if err = runAll(tx, batch); err == nil {
			err = tx.Commit()
		} else {
			tx.Rollback()
		}
	}
	for _, j := range batch {
		j.End(err)
	}
}

// runAll runs the jobs one after the other. It returns an error if the transaction cannot go on.
func runAll(tx Transaction, batch []*Job) error {
	if len(batch) == 1 { // a rollback of the transaction serves as its savepoint
		return batch[0].run(tx)
	}
	for _, j := range batch {
		if err := tx.Mark(); err != nil {
			return err
		}
		failed := j.run(tx)
		if failed != nil {
			if tx.Undo() != nil { // SQLite has rolled back the whole transaction, as it does when the disk is full
				if errors.Is(failed, dberr.ErrUnwritable) {
					return failed
				}
				return fmt.Errorf("%w: %v", dberr.ErrUnavailable, failed) // %v hides the class: it concerns one job, and this all
			}
		} else if err := tx.Keep(); err != nil {
			return err
		}
	}
	return nil
}

// run returns the error of the work, or errPanicked.
func (j *Job) run(tx Transaction) (err error) {
	defer func() {
		if r := recover(); r != nil {
			j.panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			err = errPanicked
		}
	}()
	if j.Write != nil {
		j.Changed, j.Err = tx.Apply(j.Write)
	} else {
		j.Err = j.work()
	}
	return j.Err
}

var errPanicked = errors.New("panicked")
