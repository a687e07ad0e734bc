//go:build unix

package copydb

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// canLock means that lockFile does.
const canLock = true

// lockFile takes a lock that ends with the process. It reports whether nobody else has it.
func lockFile(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }

// The bytes of a file that a SQLite connection locks while it has the file open with a write-ahead log
// (sqlite.org/src/file/src/os.h, SHARED_FIRST and SHARED_SIZE).
const sharedFirst, sharedSize = 0x40000002, 510

// whoHasOpen names another process that has the SQLite file open with a write-ahead log, as serve has; "" if there is none.
// It must be called before this process opens the database.
func whoHasOpen(file string) string {
	f, err := os.Open(file) // the operator names the file
	if err != nil {
		return ""
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: sharedFirst, Len: sharedSize}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock) != nil || lock.Type == unix.F_UNLCK {
		return ""
	}
	if lock.Pid <= 0 {
		return "another process" // of another container or machine
	}
	return fmt.Sprintf("process %d", lock.Pid)
}
