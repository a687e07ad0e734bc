package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// indexInUse reports whether a process has the database open to which this index of a log (-shm) belongs. Each
// such process holds a lock on byte 128 of the index (sqlite.org/walformat.html#the_wal_index_file_format).
func indexInUse(path string) bool { return isLocked(path, 128, 128) }

// databaseInUse reports whether a process has this database file open.
func databaseInUse(path string) bool {
	return isLocked(path, sharedFirst, sharedFirst+sharedSize-1)
}

// isLocked reports whether a process holds a lock on exactly these bytes of a file. It reads the kernel's list
// of locks, in which locks of another PID namespace are missing. Asking about the file itself would need a
// descriptor, and closing that would drop all locks that this process has on the file (fcntl_locking(2)).
func isLocked(path string, first, last int64) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return false
	}
	defer locks.Close()
	lock := fmt.Sprintf(" %02x:%02x:%d %d %d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino, first, last)
	for scan := bufio.NewScanner(locks); scan.Scan(); {
		if strings.HasSuffix(scan.Text(), lock) {
			return true
		}
	}
	return false
}
