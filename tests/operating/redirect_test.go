package operating

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// HTTP_ADDR redirects what the host's own clients ask for, and nothing else.
func TestRedirects(t *testing.T) {
	t.Parallel()
	plain := servicetest.FreeAddress(t)
	withFiles(t, servicetest.NewCertificate(t, day, 90*day), "HTTP_ADDR="+plain, "BASE_URL=https://We.localhost:8443/base", "APP_ENV=production").ServeReady()
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: we.localhost":                       "308 https://We.localhost:8443/",
		"HEAD /a%2Fb/?c=%20d&e HTTP/1.1\r\nHost: WE.LOCALHOST:80":    "308 https://We.localhost:8443/a%2Fb/?c=%20d&e",
		"GET //evil.example/ HTTP/1.1\r\nHost: we.localhost":         "308 https://We.localhost:8443//evil.example/",
		"GET http://we.localhost/x?y HTTP/1.1\r\nHost: evil.example": "308 https://We.localhost:8443/x?y",
		"GET http://evil.example/x HTTP/1.1\r\nHost: we.localhost":   "421",
		"GET / HTTP/1.1\r\nHost: evil.example":                       "421",
		"GET / HTTP/1.1\r\nHost: we.localhost.evil.example":          "421",
		"GET / HTTP/1.1\r\nHost: user@we.localhost":                  "400",
		"GET / HTTP/1.0": "421",
		"OPTIONS * HTTP/1.1\r\nHost: we.localhost":                               "405",
		"GET mailto:x HTTP/1.1\r\nHost: we.localhost":                            "400",
		"POST /api/event/x HTTP/1.1\r\nHost: we.localhost\r\nContent-Length: 0":  "405",
		"POST / HTTP/1.1\r\nHost: we.localhost\r\nContent-Length: 4\r\n\r\nbody": "405",
		"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: we.localhost":       "308 https://We.localhost:8443/.well-known/acme-challenge/x",
	} {
		conn := servicetest.Must(net.Dial("tcp", plain))(t)
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "%s\r\n\r\n", request)
		text, _ := io.ReadAll(conn) // the server ends the connection
		conn.Close()
		status, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(string(text), "HTTP/1.1 "), "HTTP/1.0 "), " ")
		got := status
		if _, location, ok := strings.Cut(rest, "\r\nLocation: "); ok {
			location, _, _ = strings.Cut(location, "\r\n")
			got += " " + location
		}
		servicetest.Is(t, got, want, "%q", request)
		servicetest.Lacks(t, string(text), "Strict-Transport-Security") // RFC 6797 section 7.2
	}
}

// Connections to HTTP_ADDR count for MAX_CONNECTIONS, those to ADMIN_ADDR do not.
func TestConnectionsOfAllListeners(t *testing.T) {
	t.Parallel()
	plain := servicetest.FreeAddress(t)
	s := withFiles(t, servicetest.NewCertificate(t, day, 90*day), "HTTP_ADDR="+plain, "MAX_CONNECTIONS=2").ServeReady()
	servicetest.Within(t, time.Minute, "a connection is refused", func() bool {
		for range 2 {
			conn := servicetest.Must(net.Dial("tcp", plain))(t)
			defer conn.Close()
		}
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	servicetest.True(t, s.Metric("worldevents_refused_connections_total") > 0, "a refused connection is counted")
}
