//go:build unix

package sqlite

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// WhoHasOpen names another process that has the SQLite file open with a write-ahead log, as serve does; "" if
// there is none. It must be called before this process opens the database: it closes a descriptor of the file,
// which drops all locks that this process has on it.
func WhoHasOpen(file string) string {
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
