//go:build !race

package socket

import (
	"net"
	"os"
	"syscall"
	"unsafe"
)

// Writer writes as much to a connection as the kernel takes at once. Its writes must come one after the other.
type Writer struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool // made once: it would be allocated for each write
	p       []byte
	n       uintptr
	errno   syscall.Errno
}

// NewWriter returns nil for a connection that has no file descriptor.
func NewWriter(conn net.Conn) *Writer {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	w := &Writer{raw: raw}
	w.attempt = func(fd uintptr) bool { // package net makes descriptors that do not block; the kernel keeps nothing of p
		w.n, _, w.errno = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(w.p))), uintptr(len(w.p)))
		return true
	}
	return w
}

// Write returns how much of p it has written, which may be nothing: it never blocks, and a nil Writer writes nothing. It returns
// an error of the connection, because that comes only once and another write would fail for another reason. A deadline that has
// passed or a connection that was closed is no error here; the ordinary write that follows finds these.
func (w *Writer) Write(p []byte) (int, error) {
	if w == nil || len(p) == 0 {
		return 0, nil
	}
	w.p, w.n, w.errno = p, 0, 0
	w.raw.Write(w.attempt)
	w.p = nil
	switch w.errno {
	case 0:
		return int(w.n), nil
	case syscall.EAGAIN, syscall.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("write", w.errno)
}
