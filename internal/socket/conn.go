package socket

import "net"

// conn is a net.Conn whose writes begin with a Writer.
type conn struct {
	net.Conn
	writer *Writer
}

// Wrap returns c with cheaper writes. They block as c's do and return the same errors. They must come one after
// the other: if two goroutines write at once, bytes may be lost.
func Wrap(c net.Conn) net.Conn {
	if w := NewWriter(c); w != nil {
		return conn{c, w}
	}
	return c
}

// Write implements net.Conn.
func (c conn) Write(p []byte) (int, error) {
	n, err := c.writer.Write(p)
	switch {
	case err != nil:
		return n, &net.OpError{Op: "write", Net: c.RemoteAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	case n == len(p) && n > 0:
		return n, nil
	}
	m, err := c.Conn.Write(p[n:])
	return n + m, err
}
