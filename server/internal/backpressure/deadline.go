package backpressure

import "time"

const (
	// minRate is how many bytes a second a client must read for a response to go on once its time is over.
	minRate = 16 << 10
	// lastMoment is how long a client may take that does not read or send, once all are hurried.
	lastMoment = time.Second
	// unread is how many of the bytes that were written may be with nobody but the network: they show no client that reads.
	unread = 256 << 10
)

// epoch is what deadlines are counted from, so that they stand where the wall clock is set meanwhile.
var epoch = time.Now()

// TimeFor returns how much longer a response may take of which a client has read so many bytes.
func TimeFor(bytes int64) time.Duration { return time.Duration(bytes) * time.Second / minRate }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. A write may go on after t for the TimeFor of what the client has read since the call.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	after := time.Duration(0)
	if !t.IsZero() {
		after = t.Sub(epoch)
	}
	c.deadline.Store(int64(after))
	c.written.Store(0)
	return nil
}

// limit returns when a write must end, the zero time for never.
func (c *Conn) limit() time.Time {
	var limit time.Time
	if deadline := c.deadline.Load(); deadline != 0 {
		limit = epoch.Add(time.Duration(deadline) + TimeFor(max(0, c.written.Load()-unread)))
	}
	if !c.heldUp.IsZero() {
		last := c.heldUp.Add(lastMoment + TimeFor(c.total-c.before))
		if limit.IsZero() || last.Before(limit) {
			return last
		}
	}
	return limit
}

// hurry is Class.Hurry for a connection whose request has not arrived.
func (c *Conn) hurry() {
	if r := c.current.Load(); r == nil || r.arriving.Load() {
		c.Conn.SetReadDeadline(time.Now().Add(lastMoment))
	}
}
