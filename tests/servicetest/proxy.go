package servicetest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy passes TCP connections on to a server, and breaks them as networks do.
type Proxy struct {
	// Addr is where it listens.
	Addr string

	tb       testing.TB
	target   string
	mu       sync.Mutex
	listener net.Listener
	line     *line // of new connections; nil while it is down
	conns    map[net.Conn]bool
	delay    time.Duration
}

// line is what may be broken about the connections that share it.
type line struct {
	silent, resets atomic.Bool
	hushes         atomic.Bool
	least, most    atomic.Int64 // nanoseconds that bytes take
	limits         [2]atomic.Pointer[int]
}

// Direction is one of the two in which a connection passes bytes.
type Direction int

const (
	ToServer Direction = iota
	ToClient
)

// NewProxy starts a proxy in front of target, host:port.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := &Proxy{Addr: FreeAddress(tb), tb: tb, target: target, conns: make(map[net.Conn]bool)}
	p.Up()
	tb.Cleanup(p.Down)
	return p
}

// Down cuts all connections and refuses new ones.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener.Close()
	p.line = nil
	p.cut()
}

// Cut cuts all connections, and takes new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
}

// Up takes connections again. Nothing is broken about those to come.
func (p *Proxy) Up() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == nil {
		var l net.Listener
		// Between the fork and the exec of a program that another test starts, the child still has the listener that Down closed.
		if err := poll(20*time.Second, func() (err error) { l, err = net.Listen("tcp", p.Addr); return err }); err != nil {
			p.tb.Fatal(err)
		}
		p.listener = l
		go p.accept(l)
	}
	p.line = new(line)
}

// Silence has connections pass nothing any more, as when a host vanishes: all until now, and those to come until Up.
func (p *Proxy) Silence() { p.broken().silent.Store(true) }

// Hush has connections of PostgreSQL pass nothing to the client after the next moment at which the server is ready for a query, such as
// the end of their start: all until now, and those to come until Up.
func (p *Proxy) Hush() { p.broken().hushes.Store(true) }

// Reset has connections end in a reset soon after the next bytes: all until now, and those to come until Up.
func (p *Proxy) Reset() { p.broken().resets.Store(true) }

// Limit has connections end after so many more bytes in one direction: all until now, and those to come until Unlimit.
func (p *Proxy) Limit(direction Direction, bytes int) { p.broken().limits[direction].Store(&bytes) }

// Unlimit ends what Limit began, for connections that have not ended.
func (p *Proxy) Unlimit(direction Direction) { p.broken().limits[direction].Store(nil) }

// Slow makes bytes take between least and most, in each direction.
func (p *Proxy) Slow(least, most time.Duration) {
	line := p.broken()
	line.least.Store(int64(least))
	line.most.Store(int64(most))
}

func (p *Proxy) broken() *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line
}

// Delay makes new connections take that long.
func (p *Proxy) Delay(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

func (p *Proxy) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go p.pass(conn)
	}
}

func (p *Proxy) pass(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	line, delay := p.line, p.delay
	p.mu.Unlock()
	time.Sleep(delay)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	if line == nil || line != p.line {
		p.mu.Unlock()
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	go func() {
		io.Copy(&passing{Conn: server, other: client, direction: ToServer, line: line}, client)
		server.Close()
	}()
	io.Copy(&passing{Conn: client, other: server, direction: ToClient, line: line}, server)
}

// readyForQuery is what a server sends that waits for the next query, outside a transaction.
var readyForQuery = []byte{'Z', 0, 0, 0, 5, 'I'}

// passing is a connection that takes what the other one reads.
type passing struct {
	net.Conn
	other     net.Conn
	direction Direction
	line      *line

	limit  *int // the one that passed counts towards
	passed int
	hushed bool
}

func (p *passing) Write(b []byte) (int, error) {
	if least, most := p.line.least.Load(), p.line.most.Load(); most > 0 {
		time.Sleep(time.Duration(least + rand.Int64N(most-least+1)))
	}
	if p.line.resets.Load() {
		time.Sleep(20 * time.Millisecond)
		for _, conn := range []net.Conn{p.Conn, p.other} {
			conn.(*net.TCPConn).SetLinger(0) // closes with a reset
			conn.Close()
		}
		return 0, errors.New("reset")
	}
	if p.line.silent.Load() || p.hushed {
		return len(b), nil
	}
	p.hushed = p.direction == ToClient && p.line.hushes.Load() && bytes.HasSuffix(b, readyForQuery)
	limit := p.line.limits[p.direction].Load()
	if limit != p.limit {
		p.limit, p.passed = limit, 0
	}
	if limit != nil && p.passed+len(b) > *limit {
		p.Conn.Write(b[:*limit-p.passed])
		p.Close()
		p.other.Close()
		return 0, errors.New("cut")
	}
	p.passed += len(b)
	return p.Conn.Write(b)
}

// ThroughProxy is the database behind a proxy: the URL that leads through it.
func (d *Database) ThroughProxy() (proxy *Proxy, url string) {
	d.tb.Helper()
	proxy = NewProxy(d.tb, cluster.url.Host)
	return proxy, strings.Replace(d.URL, cluster.url.Host, proxy.Addr, 1)
}
