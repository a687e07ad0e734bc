package backpressure

import (
	"net"
	"sync/atomic"
	"time"

	"worldevents/internal/socket"
)

// Conn is a connection to a client. A nil Conn counts nothing.
type Conn struct {
	net.Conn
	class *Class
	// What the kernel takes at once needs no deadline, which would be set for every response only to be replaced by the next.
	try *socket.Writer
	// The write deadline in nanoseconds since epoch, 0 for none, and what has been written since it was set.
	deadline, written atomic.Int64
	current           atomic.Pointer[Request]
	received          atomic.Int64 // bytes
	handled           atomic.Int64 // requests
	head              head         // belongs to who reads
	secured           bool         // by TLS
	// These belong to who writes: how many bytes have been, when the client first held up a response after Hurry, and how many
	// had been then.
	total  int64
	heldUp time.Time
	before int64
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.class.mu.Lock()
	delete(c.class.conns, c)
	c.class.mu.Unlock()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if n > 0 {
		c.received.Add(int64(n))
		if r := c.current.Load(); r != nil {
			if onMore := r.onMore.Load(); onMore != nil {
				(*onMore)()
			}
		}
	}
	return n, err
}

// read reads what the client has sent. What is encrypted has its lines in sight of securedConn.
func (c *Conn) read(p []byte) (int, error) {
	if c.secured {
		return c.Conn.Read(p)
	}
	return c.head.read(c, c.Conn.Read, p)
}

// wake ends a write that is stalled.
func (c *Conn) wake() { c.Conn.SetWriteDeadline(time.Unix(1, 0)) }

// reset closes the connection so that the kernel drops what is yet unsent, and so that no client takes what it has got for a
// whole response.
func (c *Conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Conn.Close()
}
