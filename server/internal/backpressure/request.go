package backpressure

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Request is a request that is being handled on a connection.
type Request struct {
	// InFlight counts the request, except while it is queued or its response is stalled, and not at all once it has left.
	InFlight *atomic.Int64
	// Client returns whose response it is: the user, "" for nobody in particular, and the client's address.
	Client func() (user, address string)

	stalled atomic.Int64  // for how long the response has been, in nanoseconds
	queued  time.Duration // for how long the request has been
	onPause func()        // what Leave was given; nil until then

	arriving atomic.Bool            // the body is being read
	read     int64                  // what the connection had received when the request had been read
	onMore   atomic.Pointer[func()] // called when the connection receives more; nil until Hear
}

// Stalled returns for how long the response was stalled. What net/http writes after the handler does not count.
func (r *Request) Stalled() time.Duration { return time.Duration(r.stalled.Load()) }

// Queued returns for how long the request was queued.
func (r *Request) Queued() time.Duration { return r.queued }

// HasLeft reports whether the request has left those in flight for good.
func (r *Request) HasLeft() bool { return r.onPause != nil }

// Begin makes r the request of c until End.
func (c *Conn) Begin(r *Request) {
	if c != nil {
		r.read = c.received.Load()
		c.current.Store(r)
	}
}

// End says that the request has been handled. Net/http may still have the last bytes of its response to write.
func (c *Conn) End() {
	if c != nil {
		c.current.Store(nil)
	}
}

// Receive says that the body of c's request is being read, until end, which says whether it has arrived.
func (c *Conn) Receive() (end func(arrived bool)) {
	if c == nil {
		return func(bool) {}
	}
	r := c.current.Load()
	r.arriving.Store(true)
	return func(arrived bool) {
		r.arriving.Store(false)
		if arrived && c.class.hurried.Load() {
			c.class.mu.Lock() // after Hurry
			defer c.class.mu.Unlock()
			c.Conn.SetReadDeadline(time.Time{}) // net/http goes on reading, to notice a hang-up
		}
		r.read = c.received.Load()
	}
}

// Hear returns a channel that is closed once c receives more than its request: from then on net/http does not notice that the
// client hangs up. It is nil where c is.
func (c *Conn) Hear() <-chan struct{} {
	if c == nil {
		return nil
	}
	r, heard := c.current.Load(), make(chan struct{})
	onMore := sync.OnceFunc(func() { close(heard) })
	r.onMore.Store(&onMore)
	if c.received.Load() != r.read {
		onMore()
	}
	return heard
}

// Queue says that the request of c is queued for its turn, until resume is called. Meanwhile it is not in flight.
func (c *Conn) Queue() (resume func()) {
	begin, inFlight := time.Now(), c.pause()
	return func() {
		if c != nil {
			if r := c.current.Load(); r != nil {
				r.queued += time.Since(begin)
			}
		}
		inFlight()
	}
}

// pause takes the request of c from those in flight until resume is called.
func (c *Conn) pause() (resume func()) {
	if c == nil {
		return func() {}
	}
	r := c.current.Load()
	switch {
	case r == nil:
		return func() {}
	case r.HasLeft():
		r.onPause()
		return func() {}
	}
	r.InFlight.Add(-1)
	return func() { r.InFlight.Add(1) }
}

// Leave takes the request of c from those in flight for good. From then on onPause is called each time that the request is queued
// or its response is stalled: what it holds instead of a place in flight can go to others.
func (c *Conn) Leave(onPause func()) {
	if c == nil {
		return
	}
	if r := c.current.Load(); r != nil && !r.HasLeft() {
		r.onPause = onPause
		r.InFlight.Add(-1)
	}
}

// client returns whose response is being written: a user, or nobody in particular at an address; and the address.
func (c *Conn) client() (user, address string) {
	if r := c.current.Load(); r != nil {
		user, address = r.Client()
	} else {
		address, _, _ = net.SplitHostPort(c.RemoteAddr().String())
	}
	if user == "" {
		return "address " + address, address
	}
	return userKey(user), address
}
