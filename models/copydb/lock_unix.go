//go:build unix

package copydb

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes a lock on the file that ends with this process, however it ends. It reports whether nobody
// else has the lock. The lock is flock's and not fcntl's, because SQLite uses the latter on the same file, and
// closing any descriptor would drop it.
func lockFile(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
