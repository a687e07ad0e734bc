package backpressure

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve serves size bytes to each client, whose user and address are in the query, and returns how to ask for them.
func serve(t *testing.T, c *Class, size int, writeTimeout time.Duration) (ask func(user, address string) *client, inFlight *atomic.Int64) {
	t.Helper()
	inFlight = new(atomic.Int64)
	h := &http.Server{WriteTimeout: writeTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Add(1)
		defer inFlight.Add(-1)
		conn := FromContext(r.Context())
		conn.Begin(&Request{InFlight: inFlight, Client: func() (string, string) { return r.FormValue("user"), r.FormValue("address") }})
		defer conn.End()
		w.Header().Set("Content-Length", fmt.Sprint(size))
		w.Write(make([]byte, size))
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go h.Serve(c.Attach(h, l))
	t.Cleanup(func() { h.Close() })
	return func(user, address string) *client {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET /?user=%s&address=%s HTTP/1.1\r\nHost: localhost\r\n\r\n", user, address)
		return &client{conn}
	}, inFlight
}

type client struct{ net.Conn }

// isWhole reports whether the response comes whole.
func (c *client) isWhole(t *testing.T) bool {
	t.Helper()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	return err == nil
}

// eventually waits for what is.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatal(what)
		}
	}
}

const large = 8 << 20

// The response that has waited longest makes room: of the user's own, of the address's, of the user with the most.
func TestBounds(t *testing.T) {
	for _, test := range []struct {
		name    string
		clients string // user and address of each, in the order of coming
		aborted int    // which one
	}{
		{"user", "a1 b1 a2 a3", 0},
		{"no user", "-1 b1 -2 -1 -1", 0},
		{"address", "a1 b1 c1 d1 e1 f1 g1 h1 i1", 0},
		{"user with the most", "a1 b2 b3 c4 d5 e6 f7 g8 h1 i2 j3 k4 l5 m6 n7 o8 p1", 1},
		{"all have as many", "a1 b2 c3 d4 e5 f6 g7 h8 i1 j2 k3 l4 m5 n6 o7 p8 q1", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := New(16)
			ask, inFlight := serve(t, c, large, 0)
			var clients []*client
			for _, who := range strings.Fields(test.clients) {
				clients = append(clients, ask(strings.Trim(who[:1], "-"), who[1:]))
				eventually(t, "it waits", func() bool { return c.Waiting()+int(c.Aborted()) == len(clients) })
			}
			if n := inFlight.Load(); n != 0 {
				t.Errorf("%d in flight", n)
			}
			if c.Aborted() != 1 {
				t.Errorf("%d aborted", c.Aborted())
			}
			for i, client := range clients {
				if client.isWhole(t) == (i == test.aborted) {
					t.Errorf("client %d: whole is %v", i, i == test.aborted)
				}
			}
			eventually(t, "nobody waits", func() bool { return c.Waiting() == 0 && inFlight.Load() == 0 })
			if len(c.users)+len(c.addresses) > 0 {
				t.Errorf("%d users and %d addresses are kept", len(c.users), len(c.addresses))
			}
		})
	}
}

// The write deadline moves on with what a client reads, and ends a response that nobody reads.
func TestWriteDeadline(t *testing.T) {
	const timeout = 300 * time.Millisecond
	c := New(16)
	ask, _ := serve(t, c, 1<<20, timeout)
	reader, stalled := ask("a", "1"), ask("b", "1")
	begin, n, chunk := time.Now(), 0, make([]byte, 16<<10)
	for n < 1<<20 {
		reader.SetDeadline(time.Now().Add(20 * time.Second))
		m, err := reader.Read(chunk)
		if n += m; err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(begin); took < 2*timeout {
		t.Errorf("the client was too fast to show anything: %v", took)
	}
	eventually(t, "the other has ended", func() bool { return c.Waiting() == 0 })
	if stalled.isWhole(t) {
		t.Error("a response that nobody read for so long is whole")
	}
}
