//go:build unix

package socket

import (
	"net"
	"os"
	"syscall"
)

// Writer writes as much to a connection as the kernel takes at once. Its writes must come one after the other.
type Writer struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool // made once: it would be allocated for each write
	p       []byte
	n       int
	err     error
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
	w.attempt = func(fd uintptr) bool {
		w.n, w.err = write(fd, w.p)
		return true
	}
	return w
}

// Write returns how much of p it has written, which may be nothing: it never blocks. It returns an error of the
// connection as package os does, because that error comes only once and another write would fail for another
// reason. It returns no error for a deadline that has passed or a connection that was closed; the ordinary
// write that follows finds these.
func (w *Writer) Write(p []byte) (n int, err error) {
	if w == nil || len(p) == 0 {
		return 0, nil
	}
	w.p, w.n, w.err = p, 0, nil
	w.raw.Write(w.attempt)
	w.p = nil
	switch w.err {
	case nil:
		return w.n, nil
	case syscall.EAGAIN, syscall.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("write", w.err)
}
