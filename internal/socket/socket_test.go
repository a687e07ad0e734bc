//go:build linux && !race

package socket_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"worldevents/internal/socket"
)

// tried is a connection whose writes begin with a Writer, as those to clients do.
type tried struct {
	net.Conn
	writer *socket.Writer
}

func (c tried) Write(p []byte) (int, error) {
	n, err := c.writer.Write(p)
	if err != nil || n == len(p) {
		return n, err
	}
	m, err := c.Conn.Write(p[n:])
	return n + m, err
}

// pair returns both ends of a connection, the first of them with a Writer.
func pair(t *testing.T, network, address string) (c tried, peer net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if peer, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	if c = (tried{conn, socket.NewWriter(conn)}); c.writer == nil {
		t.Fatal("it has no Writer")
	}
	t.Cleanup(func() { c.Close(); peer.Close() })
	return c, peer
}

func forEachNetwork(t *testing.T, test func(t *testing.T, c tried, peer net.Conn)) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			c, peer := pair(t, network, address)
			test(t, c, peer)
		})
	}
}

// What is written arrives once and in order, also where the kernel takes only a part at once.
func TestWrites(t *testing.T) {
	forEachNetwork(t, func(t *testing.T, c tried, peer net.Conn) {
		random := rand.NewChaCha8([32]byte{1})
		sizes := rand.New(random)
		sent := make(chan []byte, 1)
		go func() {
			defer c.Close()
			var all []byte
			for range 100 {
				p := make([]byte, 1<<sizes.IntN(21)-1)
				random.Read(p)
				if n, err := c.Write(p); n != len(p) || err != nil {
					t.Errorf("%d of %d bytes, %v", n, len(p), err)
				}
				all = append(all, p...)
			}
			sent <- all
		}()
		got, err := io.ReadAll(peer)
		if err != nil {
			t.Fatal(err)
		}
		if want := <-sent; !bytes.Equal(got, want) {
			t.Errorf("%d bytes have arrived, and are not the %d that were sent", len(got), len(want))
		}
	})
}

// A write that its deadline ends says how much of it has been sent.
func TestWriteDeadline(t *testing.T) {
	forEachNetwork(t, func(t *testing.T, c tried, peer net.Conn) {
		much, first := make([]byte, 64<<20), make([]byte, 1)
		go func() {
			peer.Read(first) // something has been sent, and nobody reads the rest
			c.SetWriteDeadline(time.Unix(1, 0))
		}()
		sent, err := c.Write(much)
		if !errors.Is(err, os.ErrDeadlineExceeded) || sent == 0 || sent == 64<<20 {
			t.Fatalf("%d bytes, %v", sent, err)
		}
		if n, err := c.Write([]byte("late")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %d bytes, %v", n, err)
		}
		c.Close()
		if got, err := io.ReadAll(peer); err != nil || len(first)+len(got) != sent {
			t.Errorf("%d bytes have arrived of %d, %v", len(got), sent, err)
		}
	})
}

func TestWriteAfterTheEnd(t *testing.T) {
	forEachNetwork(t, func(t *testing.T, c tried, peer net.Conn) {
		peer.Close()
		var err error
		for begin := time.Now(); err == nil; time.Sleep(time.Millisecond) { // the other end may be yet to say that it is gone
			if _, err = c.Write([]byte("x")); time.Since(begin) > 20*time.Second {
				t.Fatal("writes to nobody succeed")
			}
		}
		c.Close()
		if n, err := c.Write([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %d bytes, %v", n, err)
		}
	})
}

// The error of a connection is told once, to whoever writes next, and must not be lost.
func TestReset(t *testing.T) {
	c, peer := pair(t, "tcp", "127.0.0.1:0")
	peer.(*net.TCPConn).SetLinger(0)
	peer.Close()
	n, err := 1, error(nil)
	for n == 1 && err == nil { // the reset may be on its way
		n, err = c.Write([]byte("x"))
	}
	if n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// What has no file descriptor is written to in the ordinary way.
func TestNoDescriptor(t *testing.T) {
	conn, peer := net.Pipe()
	defer conn.Close()
	defer peer.Close()
	if n, err := socket.NewWriter(conn).Write([]byte("x")); n != 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
