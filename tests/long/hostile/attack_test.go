package hostile

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// attack is the attacker of a cell, whose connections all come from one address.
type attack struct {
	ctx    context.Context
	stop   context.CancelFunc
	all    sync.WaitGroup
	sent   sync.WaitGroup
	failed atomic.Int64 // connections that there was no getting
}

// client is a connection of the attacker.
type client struct {
	a    *attack
	conn net.Conn
}

// dialing is how many connections are begun at once.
const dialing = 32

// sessions of TLS are resumed, which costs the processor less.
var sessions = tls.NewLRUClientSessionCache(64)

// dial connects from an address. The kernel takes little for a client that does not read.
func dial(ctx context.Context, from net.IP, address string, secure bool, buffer int) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: from}, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if buffer > 0 {
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer)
			}
		})
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil || !secure {
		return conn, err
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: sessions, CurvePreferences: []tls.CurveID{tls.X25519}}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// begin has n connections send what text returns, and then behave. It returns at once; mounted waits.
func begin(from net.IP, address string, secure bool, n int, text func(i int) string, then func(c *client)) *attack {
	a := new(attack)
	a.ctx, a.stop = context.WithCancel(context.Background())
	places := make(chan bool, dialing)
	for i := range n {
		a.all.Add(1)
		a.sent.Add(1)
		go func() {
			defer a.all.Done()
			sent := sync.OnceFunc(a.sent.Done)
			defer sent()
			places <- true
			conn, err := dial(a.ctx, from, address, secure, 4096)
			<-places
			if err != nil {
				if a.ctx.Err() == nil {
					a.failed.Add(1)
				}
				return
			}
			defer conn.Close()
			end := context.AfterFunc(a.ctx, func() { conn.Close() })
			defer end()
			c := &client{a, conn}
			stuck := time.AfterFunc(time.Second, sent) // the service reads no more
			c.send(text(i))
			stuck.Stop()
			sent()
			if then != nil {
				then(c)
			}
			<-a.ctx.Done()
		}()
	}
	return a
}

// mounted returns a channel that is closed once all connections have sent what they send at first.
func (a *attack) mounted() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		a.sent.Wait()
		close(done)
	}()
	return done
}

// end closes all connections.
func (a *attack) end() {
	a.stop()
	a.all.Wait()
}

func (c *client) send(text string) bool {
	_, err := io.WriteString(c.conn, text)
	return err == nil
}

// pause reports whether the attack still goes on after it.
func (c *client) pause(d time.Duration) bool {
	select {
	case <-c.a.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (c *client) drip(text string) {
	for c.pause(every) && c.send(text) {
	}
}

func (c *client) readSlowly() {
	for buffer := make([]byte, 64); c.pause(every); {
		if _, err := c.conn.Read(buffer); err != nil {
			return
		}
	}
}

func (c *client) closeWrite() {
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}
