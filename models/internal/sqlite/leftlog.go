package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"worldevents/models/internal/dberr"
)

// checkLeftLog checks a database that somebody has left with its log. A process was killed, and all is well; or
// somebody has put another file in the place of the database, and the log belongs to the former one. SQLite
// cannot tell these apart. It writes whatever the log holds into the file, and deletes a log that has no file.
func (f *File) checkLeftLog(ctx context.Context) error {
	real := RealFile(f.Path)
	if err := RefuseLogOfAnother(real); err != nil {
		return err
	}
	if !hasLeftLog(real) {
		return nil
	}
	f.log.Load().Info("checking the database, since a write-ahead log was left: this takes longer the larger it is",
		"file", f.Path, "bytes", sizeOf(real), "log_bytes", sizeOf(real+"-wal"))
	err := f.quickCheck(ctx)
	if !isDamage(err) && !errors.Is(err, errMalformed) {
		return err
	}
	f.refused = fmt.Errorf("%s and its -wal are malformed together (%v): if the file was restored, the log is not its own: move %s-wal and %s-shm away and start again; "+
		"otherwise restore a backup", real, err, real, real)
	return f.refused
}

// RefuseLogOfAnother returns an error, in words for the operator, if the log beside a file is known to belong
// to another file that was in its place before. SQLite would write that log into this file, or delete it.
func RefuseLogOfAnother(real string) error {
	if _, err := os.Stat(real + "-wal"); err != nil {
		return nil
	}
	// A process may open or close the database at this moment. Then one of the three looks says so.
	if indexInUse(real+"-shm") && !databaseInUse(real) && indexInUse(real+"-shm") {
		return fmt.Errorf("beside %s is the -wal of another file, which a process has open that was in its place before: put that file back, or "+
			"stop that process, move %s-wal and %s-shm away if they are still there, and start again", real, real, real)
	}
	if _, err := os.Stat(real); (err == nil || errors.Is(err, fs.ErrNotExist)) && sizeOf(real) == 0 && sizeOf(real+"-wal") > 0 {
		return fmt.Errorf("%s-wal has the last writes of a file that is gone from its place: put that file back, or move the -wal away", real)
	}
	return nil
}

// RealFile is the absolute path of the file to which a path leads, or would lead: SQLite keeps the log beside
// that one.
func RealFile(path string) string {
	for range 40 { // as many links as Linux follows
		if target, err := os.Readlink(path); err != nil {
			break
		} else if filepath.IsAbs(target) {
			path = target
		} else {
			path = filepath.Join(filepath.Dir(path), target)
		}
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

var errMalformed = errors.New("quick_check")

// CheckAtStart checks a file that exists. Without it an instance would be ready and acknowledge writes until
// somebody meets a damaged page. It leaves two cases to the first connection: a log that was left, and whatever
// else may be wrong. Once there was a connection it checks nothing.
func (f *File) CheckAtStart(ctx context.Context) error {
	if f.opened.Load() != nil {
		return nil
	}
	real := RealFile(f.Path)
	if sizeOf(real) == 0 || hasLeftLog(real) || RefuseLogOfAnother(real) != nil {
		return nil
	}
	if err := f.quickCheck(ctx); isDamage(err) || errors.Is(err, errMalformed) {
		return fmt.Errorf("the file is damaged (%v): restore a backup", err)
	}
	return nil
}

// hasLeftLog reports whether there are a file and a log that no process has open.
func hasLeftLog(real string) bool {
	return sizeOf(real) > 0 && sizeOf(real+"-wal") > 0 && !indexInUse(real+"-shm")
}

// sizeOf is the size of a file in bytes, 0 if there is none.
func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
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
