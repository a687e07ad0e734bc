package api

import (
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A request for no host is refused as all others are that do not fit the contract.
func TestEmptyHost(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "ALLOWED_ORIGINS=http://localhost:5173")
	s := p.ServeReady()
	const served = 3
	for i, request := range []string{
		"GET /docs HTTP/1.0\r\nHost: x", "GET /docs HTTP/1.1\r\nHost: x",
		"GET http://localhost:8080/docs HTTP/1.1\r\nHost: ", // the address of the request counts (RFC 9112 section 3.2.2)
		"GET /api/auth/session HTTP/1.1\r\nHost:", "GET /api/auth/session HTTP/1.1\r\nHost: \t ", "GET /api/auth/session HTTP/1.1\r\nHost: :8080",
		"GET http://:8080/api/auth/session HTTP/1.1\r\nHost: :8080", "GET /api/auth/session HTTP/1.0", "GET /docs HTTP/1.0", "GET /sign-in HTTP/1.0", "GET /nothing HTTP/1.0",
		"POST /sign-in HTTP/1.0\r\nContent-Length: 0", "OPTIONS /api/event/plaza HTTP/1.0", "GET /api/event/plaza HTTP/1.1\r\nHost:\r\nOrigin: http://x",
		"OPTIONS /api/event/plaza HTTP/1.0\r\nOrigin: http://localhost:5173\r\nAccess-Control-Request-Method: POST",
	} {
		t.Run(request, func(t *testing.T) {
			response := sendRaw(t, strings.TrimPrefix(s.URL, "http://"), request+"\r\nConnection: close\r\n\r\n")
			head, body, _ := strings.Cut(response, "\r\n\r\n")
			if i < served {
				servicetest.Contains(t, head, " 200 ")
				return
			}
			servicetest.Contains(t, head, " 400 ", "\r\nContent-Type: application/json", "\r\nCache-Control: no-store",
				"\r\nX-Content-Type-Options: nosniff", "\r\nX-Request-Id: ")
			if !strings.HasPrefix(body, `{"error":"The request does not fit the contract","code":"validation_failed","requestId":"`) ||
				!strings.HasSuffix(body, `"fields":{"Host":"must name a host"},"fieldCodes":{"Host":"format"}}`) {
				t.Errorf("%s", body)
			}
		})
	}
	// Health checks of proxies often name no host.
	servicetest.Contains(t, sendRaw(t, p.Getenv("ADMIN_ADDR"), "GET /readyz HTTP/1.0\r\n\r\n"), "HTTP/1.0 200 ")
}

// OPTIONS for no path in particular (RFC 9110 section 9.3.7) is answered as it is for every path that there is not.
func TestOptionsAsterisk(t *testing.T) {
	t.Parallel()
	s := servicetest.NewProgram(t, "LOG_LEVEL=info").ServeReady()
	ask := func(target string) (status, headers, code string) {
		response := sendRaw(t, strings.TrimPrefix(s.URL, "http://"), "OPTIONS "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		head, body, _ := strings.Cut(response, "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		var names []string
		for _, line := range lines[1:] {
			name, _, _ := strings.Cut(line, ":")
			names = append(names, name)
		}
		slices.Sort(names)
		var answer struct{ Code string }
		json.Unmarshal([]byte(body), &answer)
		return lines[0], strings.Join(names, " "), answer.Code
	}
	status, headers, code := ask("/nothing")
	if status != "HTTP/1.1 404 Not Found" || code != "not_found" {
		t.Fatalf("/nothing: %s %s", status, code)
	}
	if s, h, c := ask("*"); s != status || h != headers || c != code {
		t.Errorf("got %s %s %s, want %s %s %s", s, h, c, status, headers, code)
	}
	servicetest.Eventually(t, "a line of the log", func() bool {
		return strings.Contains(s.Log.String(), " path=* ")
	})
}

// sendRaw sends text to address over a connection of its own and returns all that comes back.
func sendRaw(t *testing.T, address, text string) string {
	t.Helper()
	conn := servicetest.Must(net.Dial("tcp", address))(t)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(servicetest.Soon))
	io.WriteString(conn, text)
	return string(servicetest.Must(io.ReadAll(conn))(t))
}
