package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"worldevents/models/internal/dberr"
)

var errMalformed = errors.New("quick_check")

// CheckAtStart checks a file that exists, together with its log. Without it an instance would be ready and
// acknowledge writes until somebody meets a damaged page. It leaves everything else that may be wrong to the
// first connection. Once there was a connection it checks nothing.
func (f *File) CheckAtStart(ctx context.Context) error {
	real := RealFile(f.Path)
	if f.opened.Load() != nil || sizeOf(real) == 0 {
		return nil
	}
	logged := sizeOf(real+"-wal") > 0
	switch err := f.quickCheck(ctx); {
	case !isDamage(err) && !errors.Is(err, errMalformed):
		return nil
	case logged:
		return fmt.Errorf("the file is damaged, or its -wal is of another file that was in its place before (%v): if you have put it there, "+
			"move %s-wal and %s-shm away and start again; otherwise restore a backup", err, real, real)
	default:
		return fmt.Errorf("the file is damaged (%v): restore a backup", err)
	}
}

// RefuseLogWithoutFile returns an error, in words for the operator, if there is a log and no file with it.
// SQLite would make the file and delete the log.
func RefuseLogWithoutFile(real string) error {
	if info, err := os.Stat(real); (err == nil && info.Size() == 0 || errors.Is(err, fs.ErrNotExist)) && sizeOf(real+"-wal") > 0 {
		return fmt.Errorf("%s-wal has the last writes of a file that is gone from its place: put that file back, or move the -wal away", real)
	}
	return nil
}

// quickCheck checks the file (sqlite.org/pragma.html#pragma_quick_check). It uses a connection that cannot
// write, because another would write the log into the file when it closes.
func (f *File) quickCheck(ctx context.Context) error {
	conn, err := OpenConn(ctx, f.uri, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(1000)"}})
	if err != nil {
		return dberr.Classify(err)
	}
	defer conn.Close()
	var found string
	if err := conn.Value(ctx, &found, "PRAGMA quick_check(1)"); err != nil {
		return dberr.Classify(err)
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", errMalformed, strings.TrimPrefix(found, "*** in database main ***\n"))
	}
	return nil
}

// isDamage reports whether err says that the content of the file is damaged. A write to another place in the
// file would not notice that.
func isDamage(err error) bool {
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return false
	}
	switch lite.Code() {
	case sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_DATA:
		return true
	}
	return lite.Code()&0xff == sqlite3.SQLITE_CORRUPT || lite.Code()&0xff == sqlite3.SQLITE_NOTADB
}
