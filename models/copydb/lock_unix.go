//go:build unix

package copydb

import (
	"os"

	"golang.org/x/sys/unix"
)

// canLock means that lockFile does.
const canLock = true

// lockFile takes a lock that ends with the process. It reports whether nobody else has it.
func lockFile(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
