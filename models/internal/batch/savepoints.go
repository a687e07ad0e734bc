package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"worldevents/models/internal/dberr"
)

// Savepoints has the batches of a batcher share transactions on SQLite. Each job has a savepoint, and one that fails takes back only
// what it did itself. If the commit fails, all of the batch have failed, also those that only read what another one wrote.
type Savepoints struct{ Tx Transaction }

// Acquire implements transactor. There is one connection, and one goroutine at a time that uses it.
func (Savepoints) Acquire(context.Context, time.Time) error { return nil }
func (Savepoints) Release()                                 {}
func (s Savepoints) Transact(batch []*Job)                  { runBatch(s.Tx, batch) }
func (s Savepoints) Close()                                 { s.Tx.Close() }

// Transaction is what a batch runs in. A method that fails leaves no transaction behind, except keep and undo.
type Transaction interface {
	Begin() error
	// Mark begins what keep or undo ends.
	Mark() error
	Apply(w *Write) (changed bool, err error)
	Keep() error
	Undo() error
	Commit() error
	Rollback() error
	// Close is called once nothing runs any more.
	Close()
}

// runBatch runs the jobs in one transaction, and then tells them, but those that leave while it waits for the lock of another
// process: nothing has happened to them. A transaction that panics is ended: whoever called may recover, and all later writes
// would find it open.
func runBatch(tx Transaction, batch []*Job) {
	ended := false
	defer func() {
		if !ended {
			tx.Rollback()
		}
	}()
	err := tx.Begin()
	batch = Begin(batch)
	if err == nil {
		if err = runAll(tx, batch); err == nil {
			err = tx.Commit()
		} else {
			tx.Rollback()
		}
	}
	ended = true
	for _, j := range batch {
		j.End(err)
	}
}

// runAll runs the jobs one after the other. It returns an error when the transaction cannot go on.
func runAll(tx Transaction, batch []*Job) error {
	if len(batch) == 1 { // the transaction itself is what it may take back
		return batch[0].run(tx)
	}
	for _, j := range batch {
		if err := tx.Mark(); err != nil {
			return err
		}
		failed := j.run(tx)
		if failed != nil {
			if tx.Undo() != nil { // SQLite has taken back the whole transaction, as it does when the disk is full
				if errors.Is(failed, dberr.ErrUnwritable) {
					return failed
				}
				return fmt.Errorf("%w: %v", dberr.ErrUnavailable, failed) // for all, whatever it means to this one
			}
		} else if err := tx.Keep(); err != nil {
			return err
		}
	}
	return nil
}

// run returns the error of the work, or that it panicked.
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
