package models

import (
	"context"
	"database/sql"
	"time"

	"gorm.io/gorm"
)

// writing is how a file is written to: by one connection, in transactions that writes share, with a log that is kept small.
type writing struct {
	db      *sql.DB // of the one connection
	gorm    gorm.Dialector
	batches *batcher
	wal     *WAL
}

// openWriting prepares the writing. A connection waits for other processes no longer than busy. What empties the log holds readers
// and writers back no longer than hold, and once more.
func (f *databaseFile) openWriting(busy, hold time.Duration, readers connections) (w writing, err error) {
	if w.db, err = f.openPool(busy); err != nil {
		return w, err
	}
	w.db.SetMaxOpenConns(1)
	checkpoints, err := f.openPool(hold / 2)
	if err != nil {
		return w, err
	}
	commits := &sqliteWriter{db: w.db, file: f}
	w.gorm, w.batches = sqliteDialector{pool: commits}, newBatcher(savepoints{commits}, 1)
	f.write = func(ctx context.Context) error {
		err := ErrUnavailable // when ctx ends first
		w.batches.pause(ctx, func() { err = commits.probe(ctx) })
		return err
	}
	w.wal = newWAL(f.path, checkpoints, hold, readers, w.batches, commits)
	return w, nil
}
