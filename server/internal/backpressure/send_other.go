//go:build unix && !linux

package backpressure

import "syscall"

// send writes what the kernel takes of p at once.
func send(fd int, p []byte, _ bool) (int, error) { return syscall.Write(fd, p) }
