package backpressure

import (
	"crypto/tls"
	"errors"
	"io"
)

// maxHeadLines is how many lines of a request's head are read: the request line, 100 that count as header lines, Host, two that
// net/http takes away (Transfer-Encoding and Trailer), and one more, by which there are too many.
const maxHeadLines = 1 + 100 + 3 + 1

// head ends the head of a request that has too many lines, and drops what comes behind. Net/http reads a head of MaxHeaderBytes
// before it calls a handler, and 16 KB of short lines take 250 KB of memory in its map. The fields belong to who reads.
type head struct {
	before       int64  // how many requests had been handled when this head was expected
	over         bool   // a body may follow
	lines, width int    // of the head, and of its last line in bytes
	cut          bool   // too many lines
	end          string // what is left of an end that is ours
}

// Truncated reports whether the head of c's request had too many lines. All that the connection brings behind them is dropped.
func (c *Conn) Truncated() bool {
	return c != nil && c.head.cut
}

// Handled says that a request has been, whatever came of it: what c brings next is the head of another.
func (c *Conn) Handled() {
	if c != nil {
		c.handled.Add(1)
	}
}

// securedConn is TLS over a Conn, whose lines are in sight here.
type securedConn struct{ *tls.Conn }

// Read implements net.Conn. Who speaks plain HTTP is told, as net/http does.
func (s securedConn) Read(p []byte) (int, error) {
	c := s.NetConn().(*Conn)
	n, err := c.head.read(c, s.Conn.Read, p)
	var other tls.RecordHeaderError
	if errors.As(err, &other) && other.Conn != nil {
		io.WriteString(other.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	return n, err
}

// read is Read of a connection to c's client where the head of a request may be.
func (h *head) read(c *Conn, read func([]byte) (int, error), p []byte) (int, error) {
	if h.cut {
		if n := copy(p, h.end); n > 0 {
			h.end = h.end[n:]
			return n, nil
		}
		for {
			if _, err := read(p); err != nil {
				return 0, err
			}
		}
	}
	n, err := read(p)
	if c.current.Load() != nil {
		return n, err
	}
	if handled := c.handled.Load(); h.before != handled {
		h.before, h.over, h.lines, h.width = handled, false, 0, 0
	}
	return h.take(p[:n]), err
}

// take returns how many bytes of p are taken.
func (h *head) take(p []byte) int {
	for i, b := range p {
		switch {
		case h.over:
			return len(p)
		case b != '\n' && b != '\r':
			h.width++
		case b == '\n' && h.width == 0:
			h.over = true
		case b == '\n':
			h.width = 0
			if h.lines++; h.lines == maxHeadLines {
				h.cut, h.end = true, "\r\n"
				return i + 1
			}
		}
	}
	return len(p)
}
