package copydb

import (
	"context"
	"errors"
	"time"

	"worldevents/models/internal/dberr"
)

// fileCopy is a SQLite file that becomes a copy of another.
type fileCopy struct {
	*sqliteTarget
	source *sqliteSource
}

// vacuum makes the copy with VACUUM INTO (sqlite.org/lang_vacuum.html). That takes along everything in the
// file, also what this program does not know, and leaves out what deleted rows have left.
//
// The copy must show the same moment as the source's snapshot, with which it is compared. So vacuum holds
// writes back while it takes the snapshot anew and VACUUM begins, which reads from one state, too.
func (t *fileCopy) vacuum(ctx context.Context) error {
	from, err := openSQLite(ctx, t.source.file)
	if err != nil {
		return err
	}
	defer from.Close()
	held := t.source.writer != nil
	if !held {
		defer t.source.release()
		err := dberr.Classify(t.source.hold(ctx))
		if err != nil && !errors.Is(err, dberr.ErrUnwritable) { // who only reads cannot hold writes back; if somebody writes, compare says so
			return err
		}
	}
	done := make(chan error, 1)
	go func() { done <- from.Exec(ctx, "VACUUM INTO ?", t.temporary) }()
	var synced error
	for {
		select {
		case err := <-done:
			return errors.Join(err, synced)
		case <-time.After(20 * time.Millisecond):
			info, err := t.file.Stat()
			if err == nil && info.Size() > 0 && !held {
				t.source.release() // VACUUM has begun, so it has its state, which is that of the snapshot
			}
			synced = errors.Join(synced, t.file.Sync()) // not all of it at the end, as in sqliteTarget.write
		}
	}
}

// finish takes out the marks, which name worlds, as does what deleting leaves on the pages.
func (t *fileCopy) finish(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	err := t.Exec(ctx, `PRAGMA secure_delete = ON; DELETE FROM changes;
		UPDATE incarnation SET (horizon, next) = (SELECT seq, seq FROM sqlite_sequence WHERE name = 'changes') WHERE EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'changes')`)
	if err != nil {
		return err
	}
	return t.checkForeignKeys(ctx)
}
