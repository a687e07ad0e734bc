package copydb

import (
	"context"
	"errors"
	"os"
	"sync"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"worldevents/models/internal/sqlite"
)

// sqliteSource is a snapshot of a file: a read transaction, which in WAL mode sees one state and keeps nobody
// from writing.
type sqliteSource struct {
	*sqliteSide
	file  string
	owner string // another process that has the file open
	held  func() // lets others write again; nil while they can
}

func openSQLiteSource(ctx context.Context, file string) (*sqliteSource, error) {
	if info, err := os.Stat(file); err != nil { // SQLite would say that it is unable to open the file
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	owner := sqlite.WhoHasOpen(file) // before SQLite opens the file: closing a descriptor drops the locks that SQLite has on it
	side, err := openSQLiteSide(ctx, file, "query_only(1)")
	if err != nil {
		return nil, err
	}
	s := &sqliteSource{sqliteSide: side, file: file, owner: owner}
	if err := s.Exec(ctx, takeSnapshot); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// takeSnapshot reads something, because SQLite takes the snapshot at the first reading of a transaction, not at
// BEGIN.
const takeSnapshot = "BEGIN; SELECT count(*) FROM sqlite_schema"

// renew takes a newer snapshot.
func (s *sqliteSource) renew(ctx context.Context) error {
	return s.Exec(ctx, "ROLLBACK; "+takeSnapshot)
}

// hold keeps everybody from writing until close, and then takes a newer snapshot, which is the last state.
func (s *sqliteSource) hold(ctx context.Context) error {
	held, err := s.holdWrites(ctx)
	if err != nil {
		return err
	}
	s.held = held
	return s.renew(ctx)
}

func (s *sqliteSource) close() {
	if s.held != nil {
		s.held()
	}
	s.sqliteSide.Close()
}

// holdWrites keeps everybody from writing until release is called, which may be called more than once. If hold
// does so already, release does nothing.
//
// BEGIN IMMEDIATE succeeds even if this process may only read the file; the write behind it, which changes no
// row, shows that.
func (s *sqliteSource) holdWrites(ctx context.Context) (release func(), err error) {
	if s.held != nil {
		return func() {}, nil
	}
	locker, err := openSQLiteSide(ctx, s.file)
	if err != nil {
		return nil, err
	}
	if err = locker.Exec(ctx, "BEGIN IMMEDIATE"); err == nil {
		err = locker.Exec(ctx, "DELETE FROM compatibility WHERE false")
	}
	if err != nil {
		locker.Close()
		return nil, err
	}
	return sync.OnceFunc(locker.Close), nil
}

func isReadOnly(err error) bool {
	var lite *driver.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_READONLY
}

func (s *sqliteSource) users(context.Context) string {
	if s.owner == "" {
		return ""
	}
	if s.held != nil {
		return s.owner + " has the database open, and can write to it again when this process ends"
	}
	return s.owner + " has the database open: what it writes from now on is not in the copy, and its write-ahead log grows until the copy is done. To move to the copy, stop it first"
}
