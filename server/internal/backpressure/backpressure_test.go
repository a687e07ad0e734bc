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
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in memory, which hold nothing that is yet to be read.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

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
	l := make(pipes)
	go h.Serve(c.Attach(h, l))
	t.Cleanup(func() { h.Close() })
	return func(user, address string) *client {
		t.Helper()
		conn, ofServer := net.Pipe()
		l <- ofServer
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET /?user=%s&address=%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", user, address)
		return &client{conn}
	}, inFlight
}

type client struct{ net.Conn }

// isWhole reports whether the response comes whole.
func (c *client) isWhole() bool {
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	return err == nil
}

// The response that has been stalled longest makes room: of the user's own, of the address's, of the user with the most.
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
			synctest.Test(t, func(t *testing.T) {
				c := New(16)
				ask, inFlight := serve(t, c, 64<<10, 0)
				var clients []*client
				for _, who := range strings.Fields(test.clients) {
					before := c.Stalled()
					clients = append(clients, ask(strings.Trim(who[:1], "-"), who[1:]))
					time.Sleep(stallAfter - 1)
					if synctest.Wait(); c.Stalled() != before || inFlight.Load() != 1 || c.aborted.Load() != 0 {
						t.Errorf("before stallAfter has passed: %d stalled, %d in flight, %d aborted", c.Stalled(), inFlight.Load(), c.aborted.Load())
					}
					time.Sleep(time.Nanosecond)
					if synctest.Wait(); c.Stalled()+int(c.aborted.Load()) != len(clients) || inFlight.Load() != 0 {
						t.Errorf("after it: %d stalled, %d in flight, %d aborted", c.Stalled(), inFlight.Load(), c.aborted.Load())
					}
				}
				if c.aborted.Load() != 1 {
					t.Errorf("%d aborted", c.aborted.Load())
				}
				for i, client := range clients {
					if client.isWhole() == (i == test.aborted) {
						t.Errorf("client %d: whole is %v", i, i == test.aborted)
					}
				}
				synctest.Wait()
				if c.Stalled() != 0 || inFlight.Load() != 0 || len(c.users)+len(c.addresses) > 0 {
					t.Errorf("%d stalled, %d in flight, %d users and %d addresses", c.Stalled(), inFlight.Load(), len(c.users), len(c.addresses))
				}
			})
		})
	}
}

// The write deadline moves on with what a client reads beyond what may be on its way, and ends a response that nobody reads.
func TestWriteDeadline(t *testing.T) {
	const timeout, size = 10 * time.Second, 1 << 20
	for _, test := range []struct {
		name        string
		first, then int // KiB a second, before and after timeout
		ends        time.Duration
		whole       bool
	}{
		{"nobody reads", 0, 0, timeout, false},
		{"too little to tell", 25, 25, timeout, false},
		{"reads", 32, 32, 32 * time.Second, true},
		{"reads too slowly from then on", 32, 8, 18 * time.Second, false}, // then 320+8*8 KiB are read, 128 beyond unread
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(16)
				ask, _ := serve(t, c, size, timeout)
				conn := ask("a", "1")
				const tick = 100 * time.Millisecond
				begin, read := time.Now(), 0
				for time.Sleep(tick); c.Stalled() > 0; time.Sleep(tick) {
					rate := test.first
					if time.Since(begin) > timeout {
						rate = test.then
					}
					n, _ := io.ReadFull(conn, make([]byte, rate<<10/10))
					read += n
				}
				if ends := time.Since(begin); (ends-test.ends).Abs() > time.Second || read >= size != test.whole {
					t.Errorf("%d KiB were read when it ended, after %v", read>>10, ends)
				}
			})
		})
	}
}

// Once all are hurried, a response ends a second later, and a second later still for each 16 KiB that its client has read since.
func TestHurry(t *testing.T) {
	const size = 1 << 20
	for _, test := range []struct {
		name  string
		rate  int // KiB a second, from Hurry on
		ends  time.Duration
		whole bool
	}{
		{"nobody reads", 0, time.Second, false},
		{"reads too slowly", 8, 2 * time.Second, false},
		{"reads", 32, 32 * time.Second, true},
	} {
		for _, stalled := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stalled before: %v", test.name, stalled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := New(16)
					ask, _ := serve(t, c, size, time.Minute)
					conn := ask("a", "1")
					if stalled {
						time.Sleep(5 * time.Second)
					}
					c.Hurry()
					const tick = 100 * time.Millisecond
					begin, read := time.Now(), 0
					for time.Sleep(tick); c.Stalled() > 0; time.Sleep(tick) {
						n, _ := io.ReadFull(conn, make([]byte, test.rate<<10/10))
						read += n
					}
					if ends := time.Since(begin); (ends-test.ends).Abs() > time.Second/4 || read >= size-16<<10 != test.whole {
						t.Errorf("%d KiB were read when it ended, after %v", read>>10, ends)
					}
				})
			})
		}
	}
}

// Who has not sent a request has one more second, too.
func TestHurrySenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(16)
		l := make(pipes)
		h := &http.Server{ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn := FromContext(r.Context())
			conn.Begin(&Request{InFlight: new(atomic.Int64)})
			defer conn.End()
			end := conn.Receive()
			_, err := io.Copy(io.Discard, r.Body)
			end(err == nil)
		})}
		go h.Serve(c.Attach(h, l))
		defer h.Close()
		var conns []net.Conn
		for _, sent := range []string{"", "GET /", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"} {
			conn, ofServer := net.Pipe()
			l <- ofServer
			io.WriteString(conn, sent)
			conns = append(conns, conn)
		}
		synctest.Wait()
		c.Hurry()
		begin := time.Now()
		for _, conn := range conns {
			io.Copy(io.Discard, conn)
		}
		if took := time.Since(begin); took > lastMoment {
			t.Errorf("they had %v", took)
		}
	})
}

// A request hears of a byte that came in before, since the request was read.
func TestHear(t *testing.T) {
	for _, before := range []bool{true, false} {
		server, client := net.Pipe()
		go client.Write([]byte("headx"))
		c := &Conn{Conn: server}
		c.Read(make([]byte, 4))
		c.Begin(&Request{})
		if before {
			c.Read(make([]byte, 1))
		}
		heard := c.Hear()
		select {
		case <-heard:
			if !before {
				t.Error("heard of nothing")
			}
		default:
			if before {
				t.Fatal("not heard")
			}
			c.Read(make([]byte, 1))
		}
		<-heard
		server.Close()
	}
}
