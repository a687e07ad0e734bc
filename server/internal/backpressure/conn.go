package backpressure

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/models/socket"
)

const (
	// moment is how long a write may take before its response stands in the class. A client that reads, even over a
	// slow network, mostly makes room sooner.
	moment = 20 * time.Millisecond
	// minRate is how many bytes a second a client must read for its response to go on after the write deadline.
	minRate = 16 << 10
	// lastMoment is how long a client may take that does not read or send, once all are hurried.
	lastMoment = time.Second
	// unread is how much of what is written may be with nobody but the network, in bytes: it shows no client that reads.
	unread = 256 << 10
)

// errAborted is returned by writes of a response that others had to make room for.
var errAborted = errors.New("response aborted: too many wait for their clients")

// Attach makes h serve the connections of l with c's rules, and returns the listener to serve on. Where h has a configuration of
// TLS the listener does that, too.
func (c *Class) Attach(h *http.Server, l net.Listener) net.Listener {
	h.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = secured.NetConn()
		}
		return context.WithValue(ctx, connKey{}, conn)
	}
	// With HTTP/2 a connection has many responses at once, and another goroutine writes them. Their number and what the service
	// keeps for each would be up to the clients.
	h.Protocols = new(http.Protocols)
	h.Protocols.SetHTTP1(true)
	config := h.TLSConfig
	if config != nil {
		config = config.Clone()
		config.NextProtos = append(config.NextProtos, "http/1.1")
	}
	return listener{l, c, config}
}

type connKey struct{}

// FromContext returns the connection of a request, nil if it has none of an attached listener.
func FromContext(ctx context.Context) *Conn {
	conn, _ := ctx.Value(connKey{}).(*Conn)
	return conn
}

type listener struct {
	net.Listener
	class  *Class
	config *tls.Config // nil without TLS
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limitUnsent(conn)
	c := &Conn{Conn: conn, class: l.class, try: socket.NewWriter(conn)}
	l.class.mu.Lock()
	defer l.class.mu.Unlock()
	l.class.conns[c] = true
	if l.class.hurried.Load() {
		c.hurry()
	}
	if l.config != nil {
		c.secured = &securedConn{Conn: tls.Server(c, l.config)}
		return c.secured, nil
	}
	return c, nil
}

// Conn is a connection to a client. A nil Conn counts nothing.
type Conn struct {
	net.Conn
	class *Class
	// What the kernel takes at once needs no deadline, which would be set for every response only to be replaced by the next.
	try *socket.Writer
	// The write deadline in nanoseconds of Unix time, 0 for none, and what has been written since it was set.
	deadline, written atomic.Int64
	current           atomic.Pointer[Request]
	received          atomic.Int64 // bytes
	handled           atomic.Int64 // requests
	head              head         // belongs to who reads
	secured           *securedConn // nil without TLS
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

// Request is a request that is being handled on a connection.
type Request struct {
	// InFlight counts the request while it does not wait.
	InFlight *atomic.Int64
	// Client returns whose response it is: the user, "" for nobody in particular, and the client's address.
	Client func() (user, address string)

	slow   func()       // set by Leave
	waited atomic.Int64 // nanoseconds

	arriving atomic.Bool // the body is being read

	read int64                  // what the connection had received when the request had been read
	tell atomic.Pointer[func()] // called when it receives more; nil until Hear
}

// Waited returns for how long the response has waited for its client. What net/http writes after the handler does not count.
func (r *Request) Waited() time.Duration { return time.Duration(r.waited.Load()) }

// HasLeft reports whether the request is no longer one that is in flight.
func (r *Request) HasLeft() bool { return r.slow != nil }

// Begin makes r the request of c until End.
func (c *Conn) Begin(r *Request) {
	if c != nil {
		r.read = c.received.Load()
		c.current.Store(r)
	}
}

// End says that the request has been handled. The last bytes of its response may be yet to write.
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
// client hangs up.
func (c *Conn) Hear() <-chan struct{} {
	if c == nil {
		return nil
	}
	r, heard := c.current.Load(), make(chan struct{})
	tell := sync.OnceFunc(func() { close(heard) })
	r.tell.Store(&tell)
	if c.received.Load() != r.read {
		tell()
	}
	return heard
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.head.read(c, c.Conn.Read, p)
	if n > 0 {
		c.received.Add(int64(n))
		if r := c.current.Load(); r != nil {
			if tell := r.tell.Load(); tell != nil {
				(*tell)()
			}
		}
	}
	return n, err
}

// Pause takes the request of c from those in flight until resume is called.
func (c *Conn) Pause() (resume func()) {
	if c == nil {
		return func() {}
	}
	r := c.current.Load()
	switch {
	case r == nil:
		return func() {}
	case r.HasLeft():
		r.slow()
		return func() {}
	}
	r.InFlight.Add(-1)
	return func() { r.InFlight.Add(1) }
}

// Leave takes the request of c from those in flight for good. From then on Pause calls slow instead.
func (c *Conn) Leave(slow func()) {
	if c == nil {
		return
	}
	if r := c.current.Load(); r != nil && !r.HasLeft() {
		r.slow = slow
		r.InFlight.Add(-1)
	}
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. A write may go on after t for a second for each minRate bytes that the client
// has read since the call.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	nanoseconds := int64(0)
	if !t.IsZero() {
		nanoseconds = t.UnixNano()
	}
	c.deadline.Store(nanoseconds)
	c.written.Store(0)
	return nil
}

// limit returns when a write must end, the zero time for never.
func (c *Conn) limit() time.Time {
	var limit time.Time
	if deadline := c.deadline.Load(); deadline != 0 {
		limit = time.Unix(0, deadline).Add(timeFor(max(0, c.written.Load()-unread)))
	}
	if !c.heldUp.IsZero() {
		last := c.heldUp.Add(lastMoment + timeFor(c.total-c.before))
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

// timeFor is the time that a client may take to read so many bytes.
func timeFor(bytes int64) time.Duration { return time.Duration(bytes) * time.Second / minRate }

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
		defer func() { r.waited.Add(int64(time.Since(begin))) }()
	}
	soon, limit := begin.Add(moment), c.limit()
	final := !limit.IsZero() && limit.Before(soon)
	if final {
		soon = limit
	}
	n, err := c.writeUntil(soon, p)
	if err == nil {
		c.Conn.SetWriteDeadline(time.Time{}) // or the next one could not be tried at once
	}
	if err == nil || final || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	m, err := c.wait(p[n:])
	return n + m, err
}

// wait is Write for a response that stands in the class meanwhile.
func (c *Conn) wait(p []byte) (n int, err error) {
	defer c.Pause()()
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

// writeUntilAborted writes until limit. The deadline that wake sets is not replaced by another: either this sees that
// e was aborted or hurried, or wake comes after it.
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

func (c *Conn) writeUntil(deadline time.Time, p []byte) (int, error) {
	c.Conn.SetWriteDeadline(deadline)
	n, err := c.Conn.Write(p)
	c.count(n)
	return n, err
}

// wake ends a write that is waiting.
func (c *Conn) wake() { c.Conn.SetWriteDeadline(time.Unix(1, 0)) }

// reset closes the connection so that what is yet unsent takes no more memory, and so that no client takes what it has
// got for a whole response.
func (c *Conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Conn.Close()
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
