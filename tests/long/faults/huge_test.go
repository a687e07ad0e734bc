package faults

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// What is far too large or too deep is refused at once, as JSON where net/http leaves the response to the service, and
// costs next to no memory.
func TestHugeRequests(t *testing.T) {
	p := servicetest.NewProgram(t).ServeReady()
	alice := signIn(t, plain, p.URL, "alice")
	token := "token=" + alice.Cookies["token"]
	const mega = 1 << 20
	x := strings.Repeat("x", 20*mega)
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	io.WriteString(w, x)
	servicetest.NoError(t, w.Close())
	event := `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z","x":`
	// send writes a request, as long as the other side takes it, and reads the response.
	send := func(head, body string) (int, string, string) {
		conn := servicetest.Must(net.Dial("tcp", strings.TrimPrefix(p.URL, "http://")))(t)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		go func() {
			io.WriteString(conn, head+"\r\n")
			io.WriteString(conn, body)
		}()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, "", err.Error()
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, res.Header.Get("Content-Type"), string(text)
	}
	post := func(headers string) string {
		return "POST /api/event/w HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nCookie: " + token + "\r\n" + headers
	}
	get := func(path, headers string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers
	}
	cookies := strings.Repeat("a=b; ", 5000)
	deep := func(n int) string { return event + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	tests := []struct {
		name   string
		head   string
		body   string
		status int
		json   bool
	}{
		{"20 MB, announced", post(length(20 * mega)), x, 413, true},
		{"20 MB, announced, waiting for 100", post(length(20*mega) + "Expect: 100-continue\r\n"), "", 413, true},
		{"20 MB in one chunk", post("Transfer-Encoding: chunked\r\n"), fmt.Sprintf("%x\r\n", 20*mega) + x, 413, true},
		{"20 MB of one string", post(length(20 * mega)), event + `"` + x, 413, true},
		{"20 MB without a session", strings.Replace(post(length(20*mega)), token, "", 1), x, 401, true},
		{"20 MB with a GET", get("/api/auth/session", length(20*mega)), x, 400, true},
		{"gzip bomb", post("Content-Encoding: gzip\r\n" + length(bomb.Len())), bomb.String(), 415, true},
		{"30,000 deep", post(length(len(deep(30_000)))), deep(30_000), 400, true},
		{"33 deep", post(length(len(deep(33)))), deep(33), 400, true},
		{"a header of 20 KB", get("/api/auth/session", "X-Large: "+strings.Repeat("x", 20_000)+"\r\n"), "", 431, false},
		{"5,000 cookies", get("/api/auth/session", "Cookie: "+cookies+"\r\n"), "", 431, false},
		{"2,000 cookies", get("/api/auth/session", "Cookie: "+cookies[:10_000]+"\r\n"), "", 400, true},
		{"2,000 headers", get("/api/auth/session", strings.Repeat("A: b\r\n", 2000)), "", 431, true},
		{"a path of 20 KB", get("/api/event/"+strings.Repeat("x", 20_000), ""), "", 431, false},
		{"a path of 10 KB", get("/api/event/"+strings.Repeat("x", 10_000), "Cookie: "+token+"\r\n"), "", 400, true},
		{"a JWT of 10 KB", get("/api/auth/session", "Cookie: token="+strings.Repeat("x", 10_000)+"\r\n"), "", 400, true},
		{"a query of 10 KB", get("/api/event/w?"+strings.Repeat("limit=1&", 1200), "Cookie: "+token+"\r\n"), "", 400, true},
	}
	run := func() {
		for _, test := range tests {
			status, kind, text := send(test.head, test.body)
			isJSON := kind == "application/json" && json.Valid([]byte(text))
			if status != test.status || isJSON != test.json {
				t.Errorf("%s: %d %s %.200s", test.name, status, kind, text)
			}
		}
	}
	run() // and once more, when memory for ordinary work is there
	p.ForgetPeak()
	before := p.Memory("VmRSS")
	for range 3 {
		run()
	}
	grown := p.Memory("VmHWM") - before
	if grown > 5*mega {
		t.Errorf("memory grew by %d KB", grown>>10)
	}
	t.Logf("%d attacks: memory grew by %d KB", 3*len(tests), grown>>10)
}
