//go:build unix

package backpressure

import (
	"net"
	"syscall"
)

// tryWriter writes what the kernel takes at once. That needs no deadline, which would be set for every response only to be
// replaced by the next one.
type tryWriter struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool // made once: it would be allocated for each write
	p       []byte
	n       int
}

// newTryWriter returns nil for a connection that has no file descriptor.
func newTryWriter(conn net.Conn) *tryWriter {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	w := &tryWriter{raw: raw}
	w.attempt = func(fd uintptr) bool {
		w.n, _ = syscall.Write(int(fd), w.p) // an error comes again where the rest is written
		return true
	}
	return w
}

// write returns how much of p it has written, which may be nothing.
func (w *tryWriter) write(p []byte) int {
	if w == nil {
		return 0
	}
	w.p, w.n = p, 0
	w.raw.Write(w.attempt)
	w.p = nil
	return max(0, w.n)
}
