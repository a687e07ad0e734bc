//go:build unix && (!linux || race)

package socket

import "syscall"

// write is syscall.Write. Outside Linux, system calls go through the C library, of which the scheduler must
// know. The race detector learns from syscall.Write that what was done before it is visible to whoever reads.
func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
