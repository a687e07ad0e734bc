package copydb

import (
	"context"
	"errors"
	"os"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// fileCopy is a SQLite file that becomes a copy of another.
type fileCopy struct {
	sqliteTarget
	source *sqliteSource
}

func openFileCopy(file string, source *sqliteSource) (*fileCopy, error) {
	from, errFrom := os.Stat(source.file)
	to, errTo := os.Stat(file)
	if errFrom == nil && errTo == nil && os.SameFile(from, to) {
		return nil, errSameDatabase
	}
	f, err := createNewFile(file)
	if err != nil {
		return nil, err
	}
	return &fileCopy{sqliteTarget{file: f}, source}, nil
}

// vacuum makes the copy with VACUUM INTO (sqlite.org/lang_vacuum.html). That takes along everything in the
// file, also what this program does not know, and leaves out what deleted rows have left. It calls report with
// the part of the copy that is done.
//
// The copy must show the same moment as the source's snapshot, with which it is compared. So vacuum holds
// writes back while it takes the snapshot anew and VACUUM begins, which reads from one state, too.
func (t *fileCopy) vacuum(ctx context.Context, report func(part float64)) error {
	from, err := openSQLite(ctx, t.source.file)
	if err != nil {
		return err
	}
	defer from.Close()
	var size float64
	err = from.Value(ctx, &size, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size")
	if err != nil {
		return err
	}
	unlock, err := t.source.holdWrites(ctx)
	if isReadOnly(err) { // this process cannot hold writes back; if somebody writes, compare says so
		unlock, err = func() {}, nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.source.renew(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- from.Exec(ctx, "VACUUM INTO ?", t.file.temporary) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if info, err := os.Stat(t.file.temporary); err == nil && info.Size() > 0 {
				unlock() // the copy has begun, so VACUUM has its state, which is that of the snapshot
				report(min(float64(info.Size())/size, 1))
			}
		}
	}
}

func isReadOnly(err error) bool {
	var lite *driver.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_READONLY
}

// finish takes out the marks, which name worlds, as does what deleting leaves on the pages.
func (t *fileCopy) finish(ctx context.Context) (err error) {
	if t.sqliteSide, err = openSQLite(ctx, t.file.temporary, whileMade...); err != nil {
		return err
	}
	err = t.Exec(ctx, `PRAGMA secure_delete = ON; DELETE FROM changes;
		UPDATE incarnation SET (horizon, next) = (SELECT seq, seq FROM sqlite_sequence WHERE name = 'changes') WHERE EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'changes')`)
	if err != nil {
		return err
	}
	return t.checkForeignKeys(ctx)
}
