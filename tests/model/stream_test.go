package model

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// stream is a list that a client reads at its leisure.
type stream struct {
	world  *world
	query  query
	opened time.Time
	conn   *net.TCPConn
	res    *http.Response
	read   strings.Builder
	got    response
}

// patience is how long a list of some megabytes takes at most, once its client reads on. It becomes shorter when it has
// once been too short, for shrinking tries again and again.
var patience atomic.Int64

func init() { patience.Store(int64(time.Minute)) }

// serverPatience is less than the 30 seconds that the service waits for a client who reads nothing.
const serverPatience = 25 * time.Second

// late reports whether the service may have given the client up.
func (s *stream) late() bool { return time.Since(s.opened) > serverPatience }

// open asks for a list and reads the header of the response.
func (s *site) open(u *user, instance int, w *world, q query) (*stream, error) {
	for deadline := time.Now().Add(busyPatience); ; {
		st, err := s.tryOpen(u, instance, w, q)
		if err != nil || st.got.status != 503 || time.Now().After(deadline) {
			return st, err
		}
		st.close()
	}
}

func (s *site) tryOpen(u *user, instance int, w *world, q query) (*stream, error) {
	st := &stream{world: w, query: q, opened: time.Now(), got: response{call: now()}}
	dialer := net.Dialer{Control: smallBuffers}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(s.urls[instance], "https://"))
	if err != nil {
		return nil, err
	}
	st.conn = conn.(*net.TCPConn)
	st.conn.SetDeadline(time.Now().Add(time.Duration(patience.Load())))
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	_, err = fmt.Fprintf(secure, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n\r\n", worldPath(w)+q.String(), u.token)
	if err == nil {
		st.res, err = http.ReadResponse(bufio.NewReaderSize(secure, 16), nil)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	st.got.status, st.got.header = st.res.StatusCode, st.res.Header
	return st, nil
}

// some reads on for so many bytes and reports whether that was the end.
func (s *stream) some(bytes int64) (ended bool, err error) {
	s.conn.SetDeadline(time.Now().Add(time.Duration(patience.Load())))
	n, err := io.CopyN(&s.read, s.res.Body, bytes)
	switch {
	case err == io.EOF:
		s.got.body, s.got.ret = s.read.String(), now()
		return true, nil
	case err != nil && s.late():
		return true, nil
	case err != nil:
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			patience.Store(int64(5 * time.Second))
		}
		return true, findingf("a stream breaks off or stalls: list%s, %d events, %d bytes on, %v after it was opened: %w",
			s.query, strings.Count(s.read.String(), `"scheduledAt"`), n, time.Since(s.opened), err)
	}
	return false, nil
}

// rest reads to the end.
func (s *stream) rest() error {
	s.conn.SetReadBuffer(4 << 20)
	_, err := s.some(1 << 40)
	return err
}

// smallBuffers keeps the kernel from taking megabytes for a client that reads nothing. The segments of loopback would
// not fit, and then trickle.
func smallBuffers(_, _ string, raw syscall.RawConn) (err error) {
	raw.Control(func(fd uintptr) {
		if err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10); err == nil {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1400)
		}
	})
	return err
}

func (s *stream) close() { s.conn.Close() }
