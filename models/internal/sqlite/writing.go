package sqlite

import (
	"context"
	"database/sql"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// Writing is how a file is written to: one connection, transactions that writes share, and a log that is kept
// small.
type Writing struct {
	DB      *sql.DB // of the one connection
	GORM    gorm.Dialector
	Batches *batch.Batcher
	WAL     *WAL
}

// OpenWriting prepares the writing. A connection waits no longer than busy for other processes. Emptying the
// log holds readers back for no longer than hold, and then readers and writers for no longer than hold.
func (f *File) OpenWriting(busy, hold time.Duration, readers batch.Connections) (w Writing, err error) {
	if w.DB, err = f.OpenPool(busy); err != nil {
		return w, err
	}
	w.DB.SetMaxOpenConns(1)
	checkpoints, err := f.OpenPool(hold / 2)
	if err != nil {
		return w, err
	}
	commits := &writer{db: w.DB, file: f}
	w.GORM, w.Batches = dialector{pool: commits}, batch.New(batch.Savepoints{Tx: commits}, 1)
	f.write = func(ctx context.Context) error {
		err := dberr.ErrUnavailable // stays if ctx ends first
		w.Batches.Pause(ctx, func() { err = commits.probe(ctx) })
		return err
	}
	w.WAL = newWAL(f.Path, checkpoints, hold, readers, w.Batches, commits)
	return w, nil
}
