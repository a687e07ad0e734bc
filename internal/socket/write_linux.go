//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// write is syscall.Write without telling the scheduler. The descriptor must not block; package net makes all of
// its descriptors so.
func write(fd uintptr, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) // the kernel reads p and keeps nothing of it
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
