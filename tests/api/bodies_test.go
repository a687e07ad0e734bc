package api_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// send sends text over a connection of its own, from this address of the machine, and leaves it open.
func send(t *testing.T, s *servicetest.Service, from, text string) net.Conn {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}, NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}}
	conn := servicetest.Must(dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "https://")))(t)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	servicetest.Must(io.WriteString(conn, text))(t)
	return conn
}

// response reads the response on a connection.
func response(t *testing.T, conn *bufio.Reader) (res *http.Response, body string) {
	t.Helper()
	res = servicetest.Must(http.ReadResponse(conn, nil))(t)
	return res, string(servicetest.Must(io.ReadAll(res.Body))(t))
}

// Whoever sends bodies slowly takes nothing from others, nor from themselves: the requests are not in flight until the bodies have come.
func TestSlowBodies(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		for _, attack := range []struct{ name, target, cookie string }{
			{"nobody", "POST /sign-out", ""},
			{"nobody with a cookie", "POST /sessions/end", "token=x.y.z"},
			{"an account", "POST " + servicetest.Plaza, "token=" + alice.Session.Token},
			{"an account that waits", "GET " + servicetest.Plaza + "?wait=50", "token=" + alice.Session.Token},
		} {
			t.Run(attack.name, func(t *testing.T) {
				head := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nCookie: %s\r\nIf-None-Match: \"x\"\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", attack.target, attack.cookie)
				for range 50 {
					defer send(t, s, "127.0.0.2", head).Close()
				}
				for _, c := range []*servicetest.Client{alice, bob} {
					c.Create("plaza", "n", servicetest.When)
					c.Post("/sessions/end", "id=x", servicetest.Header("Content-Type", "application/x-www-form-urlencoded")).Is(204, "")
				}
				if n := servicetest.Held(t, s, "connections"); n < 50 {
					t.Errorf("%d of 50 bodies are on their way", n)
				}
			})
		}
		servicetest.Within(t, 5*time.Second, "nothing is held", func() bool { return servicetest.Held(t, s, "requests") == 0 })
	}, func(o *servicetest.Options) { o.MaxInFlight = 4 })
}

// Connections beyond the limit are closed at once, and counted. One that ends makes room.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.MaxConnections = 3 })
	address := strings.TrimPrefix(s.URL, "https://")
	var conns []*tls.Conn
	open := func() bool {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			conns = append(conns, conn)
		}
		return err == nil
	}
	for i := range 5 {
		servicetest.Is(t, open(), i < 3, "connection %d is served", i)
	}
	servicetest.Is(t, servicetest.Metric(t, s, "worldevents_refused_connections_total"), 2, "refused")
	servicetest.Is(t, servicetest.Held(t, s, "connections"), 3, "open")
	conns[0].Close()
	servicetest.Eventually(t, "there is room", open)
}

// A form has two seconds, and what comes too late or is too much ends the connection.
func TestFormsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.Docs = true })
	for name, form := range map[string]string{
		"late":        "Content-Length: 9\r\n\r\nid=x",
		"late chunks": "Transfer-Encoding: chunked\r\n\r\n4\r\nid=x\r\n",
		"whole":       fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 8<<10+1, strings.Repeat("x", 8<<10+1)),
		"large":       fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 1<<20, strings.Repeat("x", 9<<10)),
	} {
		for _, path := range []string{"POST /sign-out", "POST /sessions/end", "GET /sessions", "GET /docs"} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				begin := time.Now()
				conn := bufio.NewReader(send(t, s, "127.0.0.1", path+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"+form))
				res, body := response(t, conn)
				if res.StatusCode != 400 || !strings.Contains(body, `"body":"must be a form of at most 8 KiB`) || !res.Close {
					t.Errorf("%d %s, closed: %v", res.StatusCode, body, res.Close)
				}
				if _, err := conn.ReadByte(); err != io.EOF {
					t.Error(err)
				}
				if took := time.Since(begin); strings.HasPrefix(name, "late") && took < 2*time.Second {
					t.Errorf("after %v", took)
				}
			})
		}
	}
}

// A request has a hundred header lines at most. Pages of allowed origins see why it was refused.
func TestHeaderLines(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.AllowedOrigins = []string{"https://app.example.com"} })
	alice := s.SignIn("alice")
	lines := func(n int) servicetest.RequestOption {
		return func(r *http.Request) {
			r.Header.Set("Origin", "https://app.example.com")
			r.Header.Set("Accept-Encoding", "identity")
			r.Header["X-Line"] = make([]string, n-4) // besides these, Cookie and User-Agent
		}
	}
	alice.Get(servicetest.Plaza, lines(100)).Is(200, servicetest.List())
	for _, path := range []string{servicetest.Plaza, servicetest.SessionPath, servicetest.RefreshPath, "/docs", "/nowhere"} {
		if res := alice.Get(path, lines(101)).IsError(431, "headers_too_large").SetsNoCookie(); !res.Close {
			t.Errorf("%s: the connection stays", path)
		}
	}
	alice.Get(servicetest.Plaza, lines(101)).HasHeader("Access-Control-Allow-Origin", "https://app.example.com")
}
