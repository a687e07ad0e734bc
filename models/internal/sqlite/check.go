package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"worldevents/models/internal/dberr"
)

// CheckAtStart has SQLite check an existing file and its log (sqlite.org/pragma.html#pragma_quick_check). Otherwise an instance would
// acknowledge writes until it meets a damaged page. It leaves everything else to the first connection, and checks nothing after that.
func (f *File) CheckAtStart(ctx context.Context) error {
	real := RealFile(f.Path)
	if f.opened.Load() != nil || sizeOf(real) == 0 {
		return nil
	}
	logged := sizeOf(real+"-wal") > 0
	// This connection cannot write, because another would write the log into the file when it closes.
	conn, err := OpenConn(ctx, f.uri, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(1000)"}})
	if err != nil {
		return nil
	}
	defer conn.Close()
	var found string
	err = dberr.Classify(conn.Value(ctx, &found, "PRAGMA quick_check(1)"))
	switch {
	case err == nil && found != "ok":
		err = errors.New("quick_check: " + strings.TrimPrefix(found, "*** in database main ***\n"))
	case !isDamage(err):
		return nil
	}
	if logged {
		return fmt.Errorf("the file is damaged, or its -wal is of another file that was in its place before (%v): if you have put it there, "+
			"move %s-wal and %s-shm away and start again; otherwise restore a backup", err, real, real)
	}
	return fmt.Errorf("the file is damaged (%v): restore a backup", err)
}

// RefuseLogWithoutFile returns an error, in words for the operator, for a log without its file: SQLite would delete the log.
func RefuseLogWithoutFile(real string) error {
	if info, err := os.Stat(real); (err == nil && info.Size() == 0 || errors.Is(err, fs.ErrNotExist)) && sizeOf(real+"-wal") > 0 {
		return fmt.Errorf("%s-wal has the last writes of a file that is gone from its place: put that file back, or move the -wal away", real)
	}
	return nil
}

// isDamage reports whether err says that the content of the file is damaged. A write to another place in it would not notice that.
func isDamage(err error) bool {
	code := codeOf(err)
	return code&0xff == sqlite3.SQLITE_CORRUPT || code&0xff == sqlite3.SQLITE_NOTADB || slices.Contains([]int{
		sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_DATA}, code)
}

// isInLog reports whether a commit may have failed after the log had all of it.
func isInLog(err error) bool {
	return slices.Contains([]int{
		sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP}, codeOf(err))
}

// codeOf is the extended result code of SQLite's error (sqlite.org/rescode.html), 0 for another.
func codeOf(err error) int {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code()
	}
	return 0
}
