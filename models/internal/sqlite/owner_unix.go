//go:build unix

package sqlite

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// WhoHasOpen names another process that has the SQLite file open with a write-ahead log, as serve does; "" if
// there is none.
func WhoHasOpen(file string) string {
	switch pid, isLocked := lockHolder(file, sharedFirst, sharedSize); {
	case !isLocked:
		return ""
	case pid <= 0:
		return "another process" // of another container or machine
	default:
		return fmt.Sprintf("process %d", pid)
	}
}

// databaseInUse reports whether another process has this database file open.
func databaseInUse(path string) bool {
	_, isLocked := lockHolder(path, sharedFirst, sharedSize)
	return isLocked
}

// indexInUse reports whether another process has the database open to which this index of a log (-shm) belongs.
// Each such process holds a lock on byte 128 of the index (sqlite.org/walformat.html#the_wal_index_file_format).
func indexInUse(path string) bool {
	_, isLocked := lockHolder(path, 128, 1)
	return isLocked
}

// lockHolder finds another process that holds a lock on some of these bytes of a database or its index. Its pid
// is 0 or less if it belongs to another container or machine. A file that this process may not read counts as
// not locked, and all count as locked of a database that is kept.
//
// Closing a descriptor of a file drops all locks that this process has on it (fcntl_locking(2)), and SQLite would
// not notice. So lockHolder opens nothing of a database that this process has open. The list in /proc/locks needs
// no descriptor, but the kernel gives it in pages: while other locks come and go it lacks some that are held all
// the time.
func lockHolder(path string, first, size int64) (pid int32, isLocked bool) {
	kept.Lock()
	defer kept.Unlock()
	if kept.databases[RealFile(strings.TrimSuffix(path, "-shm"))].users > 0 {
		return int32(os.Getpid()), true
	}
	f, err := os.Open(path) // the operator names the file
	if err != nil {
		return 0, false
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: first, Len: size}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock) != nil {
		return 0, false
	}
	return lock.Pid, lock.Type != unix.F_UNLCK
}
