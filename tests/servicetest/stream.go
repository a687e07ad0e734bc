package servicetest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// unreadHeader marks the request of a client that a test has read slowly or not at all.
const unreadHeader = "Unread"

// waitForSlow has h wait for the clients of OpenListAt for as long as a test takes: on a busy machine that is longer than
// the service lets a client take.
func waitForSlow(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(unreadHeader) != "" {
			w = noWriteDeadline{w}
		}
		h.ServeHTTP(w, r)
	})
}

type noWriteDeadline struct{ http.ResponseWriter }

func (noWriteDeadline) SetWriteDeadline(time.Time) error { return nil }

func (w noWriteDeadline) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// OpenList is OpenListAt of the large list.
func OpenList(t *testing.T, s *Service, c *Client) (*http.Response, func()) {
	t.Helper()
	res, conn := OpenListAt(t, s, c, Plaza)
	return res, func() { conn.Close() }
}

// OpenListAt begins to ask for a list and reads a little of it. It asks again when those before it still fill the buffers
// of the network with what they have not read.
func OpenListAt(t *testing.T, s *Service, c *Client, path string) (*http.Response, *net.TCPConn) {
	t.Helper()
	var res *http.Response
	var conn *net.TCPConn
	Within(t, time.Minute, path+" is not refused", func() bool {
		plain, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
		NoError(t, err)
		conn = plain.(*net.TCPConn)
		conn.SetReadBuffer(4 << 10) // or the kernel would take megabytes for a client that reads nothing
		secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		fmt.Fprintf(secured, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n%s: yes\r\n\r\n", path, c.Cookie("token"), unreadHeader)
		if res, err = http.ReadResponse(bufio.NewReaderSize(secured, 16), nil); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 503 {
			return true
		}
		conn.Close()
		return false
	})
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	return res, conn
}
