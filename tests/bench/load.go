package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// response is what the load generator keeps of one.
type response struct {
	status       int
	size         int64         // of the body
	firstByte    time.Duration // of the body, since the request was sent
	etag         string
	refreshToken string
}

// requests makes the requests of one connection: the bytes of the next one, given the response to the one before, or
// nothing when there are no more. The response is zero at first, and always at the same place.
type requests func(buf []byte, last *response) []byte

var errNoMore = errors.New("no more requests to make")

// client is one keep-alive connection. It parses no more than it must, so that two cores are left to what is measured.
type client struct {
	conn  net.Conn
	r     *bufio.Reader
	begin time.Time
}

func dial(addr string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// newSmallReader is for one of thousands of connections.
func newSmallReader(conn net.Conn) *bufio.Reader { return bufio.NewReaderSize(conn, 1<<10) }

// do sends a request and reads the response. Its body goes to body, or nowhere when that is nil.
func (c *client) do(request []byte, res *response, body io.Writer) error {
	c.begin = time.Now()
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	return c.read(res, body)
}

// read reads the response to a request that was sent at begin.
func (c *client) read(res *response, body io.Writer) error {
	*res = response{etag: res.etag, refreshToken: res.refreshToken}
	length, chunked := int64(0), false
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first {
			if len(line) < 12 {
				return fmt.Errorf("status line %q", line)
			}
			res.status = int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0')
			continue
		}
		if len(line) == 0 {
			break
		}
		switch name, value, _ := bytes.Cut(line, []byte(": ")); string(name) {
		case "Content-Length":
			length, _ = strconv.ParseInt(string(value), 10, 64)
		case "Transfer-Encoding":
			chunked = true
		case "Etag":
			res.etag = string(value)
		case "Set-Cookie":
			if value, ok := bytes.CutPrefix(value, []byte("refreshToken=")); ok {
				value, _, _ = bytes.Cut(value, []byte(";"))
				res.refreshToken = string(value)
			}
		}
	}
	if !chunked {
		return c.take(res, length, body)
	}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return err
		}
		if err := c.take(res, n, body); err != nil {
			return err
		}
		if _, err := c.r.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

func (c *client) take(res *response, n int64, body io.Writer) error {
	if n == 0 {
		return nil
	}
	if res.size == 0 {
		if _, err := c.r.Peek(1); err != nil {
			return err
		}
		res.firstByte = time.Since(c.begin)
	}
	res.size += n
	if body != nil {
		_, err := io.CopyN(body, c.r, n)
		return err
	}
	_, err := c.r.Discard(int(n))
	return err
}

// fetch sends one request and returns the response with its body.
func fetch(addr string, request []byte) (response, []byte, error) {
	var res response
	c, err := dial(addr)
	if err != nil {
		return res, nil, err
	}
	defer c.conn.Close()
	var body bytes.Buffer
	err = c.do(request, &res, &body)
	return res, body.Bytes(), err
}

// discard is fetch without keeping the body.
func discard(addr string, request []byte) (res response, err error) {
	c, err := dial(addr)
	if err != nil {
		return res, err
	}
	defer c.conn.Close()
	return res, c.do(request, &res, nil)
}

// load keeps connections busy for a round and returns the rate of requests a second and the number of all of them.
func load(addr string, conns int, warmup, round time.Duration, of func(connection int) requests) (rate float64, n int, err error) {
	return together(conns, func(connection int) (float64, int, error) {
		s, err := newSession(addr, of(connection))
		if err != nil {
			return 0, 0, err
		}
		defer s.conn.Close()
		return paced(warmup, round, s.do)
	})
}

// times sends n requests.
func times(addr string, conns, n int, of func(connection int) requests) error {
	_, _, err := together(conns, func(connection int) (float64, int, error) {
		s, err := newSession(addr, of(connection))
		if err != nil {
			return 0, 0, err
		}
		defer s.conn.Close()
		for range n / conns {
			if err := s.do(); err != nil {
				return 0, 0, err
			}
		}
		return 0, 0, nil
	})
	return err
}

// session is one connection and its requests.
type session struct {
	*client
	next requests
	last response
	buf  []byte
}

func newSession(addr string, next requests) (*session, error) {
	c, err := dial(addr)
	return &session{client: c, next: next}, err
}

func (s *session) do() error {
	if s.buf = s.next(s.buf[:0], &s.last); len(s.buf) == 0 {
		return errNoMore
	}
	if err := s.client.do(s.buf, &s.last, nil); err != nil {
		return err
	}
	if s.last.status != 200 && s.last.status != 304 {
		line, _, _ := bytes.Cut(s.buf, []byte("\r\n"))
		return fmt.Errorf("%s: status %d", line, s.last.status)
	}
	return nil
}

// together adds up what connections do at the same time.
func together(conns int, do func(connection int) (rate float64, n int, err error)) (rate float64, n int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			r, m, fault := do(i)
			mu.Lock()
			defer mu.Unlock()
			rate, n, err = rate+r, n+m, errors.Join(err, fault)
		})
	}
	wg.Wait()
	return rate, n, err
}

// paced repeats do for a round, after a warm-up. The rate is by the time from the first to the last end of a do, so
// that one cut off by the end of the round does not matter.
func paced(warmup, round time.Duration, do func() error) (rate float64, n int, err error) {
	begin, warm := time.Now(), 0
	for ; ; n++ {
		passed := time.Since(begin)
		if warm == 0 && n > 0 && passed >= warmup {
			begin, warm, passed = time.Now(), n, 0
		}
		if warm > 0 && n > warm && passed >= round {
			return float64(n-warm) / passed.Seconds(), n, nil
		}
		if err := do(); err != nil {
			return 0, n, err
		}
	}
}
