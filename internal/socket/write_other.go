//go:build unix && (!linux || race)

package socket

import "syscall"

// write is syscall.Write. Outside Linux, system calls go through the C library, which the scheduler must know of, and the
// race detector learns from syscall.Write what was done before what is read elsewhere.
func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
