package models

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// savepoints has the batches of a batcher share transactions on SQLite. Each job has a savepoint, and one that fails takes back only
// what it did itself. If the commit fails, all of the batch have failed, also those that only read what another one wrote.
type savepoints struct{ tx batchTransaction }

// acquire implements transactor. There is one connection, and one goroutine at a time that uses it.
func (savepoints) acquire(context.Context, time.Time) error { return nil }
func (savepoints) release()                                 {}
func (s savepoints) transact(batch []*job)                  { runBatch(s.tx, batch) }
func (s savepoints) close()                                 { s.tx.close() }

// batchTransaction is what a batch runs in. A method that fails leaves no transaction behind, except keep and undo.
type batchTransaction interface {
	begin() error
	// mark begins what keep or undo ends.
	mark() error
	apply(w *write) (changed bool, err error)
	keep() error
	undo() error
	commit() error
	rollback()
	// close is called once nothing runs any more.
	close()
}

// runBatch runs the jobs in one transaction, and then tells them, but those that leave while it waits for the lock of another
// process: nothing has happened to them. A transaction that panics is ended: whoever called may recover, and all later writes
// would find it open.
func runBatch(tx batchTransaction, batch []*job) {
	ended := false
	defer func() {
		if !ended {
			tx.rollback()
		}
	}()
	err := tx.begin()
	batch = begin(batch)
	if err == nil {
		if err = runAll(tx, batch); err == nil {
			err = tx.commit()
		} else {
			tx.rollback()
		}
	}
	ended = true
	for _, j := range batch {
		j.end(err)
	}
}

// runAll runs the jobs one after the other. It returns an error when the transaction cannot go on.
func runAll(tx batchTransaction, batch []*job) error {
	if len(batch) == 1 { // the transaction itself is what it may take back
		return batch[0].run(tx)
	}
	for _, j := range batch {
		if err := tx.mark(); err != nil {
			return err
		}
		failed := j.run(tx)
		if failed != nil {
			if tx.undo() != nil { // SQLite has taken back the whole transaction, as it does when the disk is full
				if errors.Is(failed, ErrUnwritable) {
					return failed
				}
				return fmt.Errorf("%w: %v", ErrUnavailable, failed) // for all, whatever it means to this one
			}
		} else if err := tx.keep(); err != nil {
			return err
		}
	}
	return nil
}

// run returns the error of the work, or that it panicked.
func (j *job) run(tx batchTransaction) (err error) {
	defer func() {
		if r := recover(); r != nil {
			j.panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			err = errPanicked
		}
	}()
	if j.write != nil {
		j.changed, j.err = tx.apply(j.write)
	} else {
		j.err = j.work()
	}
	return j.err
}

var errPanicked = errors.New("panicked")
