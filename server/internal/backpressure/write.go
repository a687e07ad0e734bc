package backpressure

import (
	"errors"
	"os"
	"time"
)

// stallAfter is how long a write may take before its response counts as stalled. A client that reads, even over a slow
// network, mostly makes room sooner.
const stallAfter = 20 * time.Millisecond

// errAborted is returned by writes of a response that others had to make room for.
var errAborted = errors.New("response aborted: too many wait for their clients")

// Write implements net.Conn. Besides the errors of the connection it returns errAborted.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.try.Write(p)
	c.count(n)
	if n == len(p) || err != nil {
		return n, err
	}
	m, err := c.writeRest(p[n:])
	return n + m, err
}

func (c *Conn) count(n int) {
	c.written.Add(int64(n))
	c.total += int64(n)
}

// writeRest is Write for what the kernel does not take at once.
func (c *Conn) writeRest(p []byte) (int, error) {
	begin := time.Now()
	if r := c.current.Load(); r != nil {
		defer func() { r.stalled.Add(int64(time.Since(begin))) }()
	}
	soon, limit := begin.Add(stallAfter), c.limit()
	final := !limit.IsZero() && limit.Before(soon)
	if final {
		soon = limit
	}
	c.Conn.SetWriteDeadline(soon)
	n, err := c.Conn.Write(p)
	c.count(n)
	if err == nil {
		c.Conn.SetWriteDeadline(time.Time{}) // or the next one could not be tried at once
	}
	if err == nil || final || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	m, err := c.writeStalled(p[n:])
	return n + m, err
}

// writeStalled is Write for a response that is stalled: it stands in the class until p is written.
func (c *Conn) writeStalled(p []byte) (n int, err error) {
	defer c.pause()()
	user, address := c.client()
	e := c.class.enter(c, user, address)
	defer c.class.leave(e)
	for {
		var m int
		m, err = c.writeUntilAborted(e, p[n:])
		n += m
		if !errors.Is(err, os.ErrDeadlineExceeded) || e.aborted.Load() || !time.Now().Before(c.limit()) {
			break
		}
	}
	if e.aborted.Load() {
		c.reset()
		return n, errAborted
	}
	if err == nil {
		c.class.leave(e) // first: nobody wakes it any more
		c.Conn.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// writeUntilAborted writes until limit. It never replaces the deadline that wake sets: either it sees that e was aborted or
// hurried, or wake comes after it.
func (c *Conn) writeUntilAborted(e *entry, p []byte) (int, error) {
	hurried := c.class.hurried.Load()
	if hurried && c.heldUp.IsZero() {
		c.heldUp, c.before = time.Now(), c.total
	}
	c.Conn.SetWriteDeadline(c.limit())
	if e.aborted.Load() {
		return 0, errAborted
	}
	if c.class.hurried.Load() != hurried {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := c.Conn.Write(p)
	c.count(n)
	return n, err
}
