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

// OpenList is openList of the large list.
func OpenList(t *testing.T, s *Service, c *Client, deadline time.Time) (*http.Response, func()) {
	t.Helper()
	res, conn := OpenListAt(t, s, c, Plaza, deadline)
	return res, func() { conn.Close() }
}

// OpenListAt begins to ask for a list and reads a little of it. It asks again when those before it still fill the buffers
// of the network with what they have not read.
func OpenListAt(t *testing.T, s *Service, c *Client, path string, deadline time.Time) (*http.Response, *net.TCPConn) {
	t.Helper()
	plain, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	plain.(*net.TCPConn).SetReadBuffer(4 << 10) // or the kernel would take megabytes for a client that reads nothing
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true})
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n\r\n", path, c.Cookie("token"))
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == 503 && time.Now().Before(deadline) {
		conn.Close()
		return OpenListAt(t, s, c, path, deadline)
	}
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	return res, plain.(*net.TCPConn)
}
