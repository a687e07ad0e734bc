package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"
)

// client is one keep-alive connection, and what its next request depends on.
type client struct {
	n    int // which one of its server
	conn net.Conn
	r    *bufio.Reader
	buf  []byte // of the request
	// The last response, and what the last ones that had one said.
	head                      http.Header
	size                      int64
	etag, token, refreshToken string
}

func (c *client) dial(addr string, buffer int) {
	if c.conn != nil {
		c.conn.Close()
	}
	c.conn = must(net.Dial("tcp", addr))
	c.r = bufio.NewReaderSize(c.conn, buffer)
}

// do sends a request and reads the response.
func (c *client) do(request []byte, body io.Writer) {
	must(c.conn.Write(request))
	c.read(body)
}

// read reads the response to the request that was sent last.
func (c *client) read(body io.Writer) {
	res := must(http.ReadResponse(c.r, nil))
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotModified {
		run.Fatalf("%.60q: %s", c.buf, res.Status)
	}
	c.head = res.Header
	if etag := res.Header.Get("Etag"); etag != "" {
		c.etag = etag
	}
	for _, cookie := range res.Cookies() {
		switch cookie.Name {
		case "token":
			c.token = cookie.Value
		case "refreshToken":
			c.refreshToken = cookie.Value
		}
	}
	c.size = must(io.Copy(body, res.Body))
}

// sends has each connection to the server repeat a call.
func (s *server) sends(call call) func(n int) (do func()) {
	return func(n int) func() {
		c := &s.clients[n]
		c.n = n
		c.dial(s.addr, 64<<10)
		return func() {
			request := call(s, c)
			if request == nil {
				runtime.Goexit() // without a rate
			}
			c.do(request, io.Discard)
		}
	}
}

// load has connections repeat for a round what each does. It returns how much all did, and how much a second, 0 if there was not enough
// to do.
func load(conns int, round time.Duration, of func(n int) (do func())) (rate float64, done int) {
	rates, all := make([]float64, conns), make([]int, conns)
	each(conns, func(n int) { rates[n], all[n] = repeat(round, of(n)) })
	for n := range conns {
		rate, done = rate+rates[n], done+all[n]
	}
	if slices.Contains(rates, 0) {
		rate = 0
	}
	return rate, done
}

// repeat measures from the first end of a do after a warm-up to the first after the round, so that one that the end would cut off
// does not matter.
func repeat(round time.Duration, do func()) (rate float64, done int) {
	for begin := time.Now(); done == 0 || time.Since(begin) < round/5; done++ {
		do()
	}
	warm, begin := done, time.Now()
	for ; done == warm || time.Since(begin) < round; done++ {
		do()
	}
	return float64(done-warm) / time.Since(begin).Seconds(), done
}

// each calls do with 0 to n-1, all at once.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}
