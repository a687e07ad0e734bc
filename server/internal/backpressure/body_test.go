//go:build linux

package backpressure

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
)

// No write is said to be followed by another unless it is, or the end of a response would wait in the kernel; and the first of
// a long body is said to be.
func TestWriteBody(t *testing.T) {
	body := make([]byte, 300<<10)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	type write struct {
		size int
		more bool
	}
	var parts []int
	var chunked bool
	var writes []write
	handled := make(chan struct{}, 1)
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { handled <- struct{}{} }()
		conn := FromContext(r.Context())
		try := conn.try
		attempt := try.attempt
		try.attempt = func(fd uintptr) bool {
			writes = append(writes, write{len(try.p), try.more})
			return attempt(fd)
		}
		size := 0
		for _, n := range parts {
			size += n
		}
		if !chunked {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		at := 0
		for _, n := range parts {
			before := len(writes)
			if _, err := conn.WriteBody(w, body[at:at+n]); err != nil {
				t.Error(err)
			}
			at += n
			if rest := conn.announced.Load(); rest > 0 {
				t.Errorf("%s, parts %v: %d bytes are awaited after a part", r.Method, parts, rest)
			}
			for i, this := range writes[before:] {
				if this.more && before+i == len(writes)-1 {
					t.Errorf("parts %v, chunked %v: the last write of a part is to be followed: %v", parts, chunked, writes[before:])
				}
			}
		}
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go h.Serve(New(8).Attach(h, l))
	defer h.Close()
	followed := 0
	for range 3000 {
		chunked, parts, writes = rand.IntN(2) == 0, nil, nil
		size := 0
		for range 1 + rand.IntN(4) {
			n := 1 + rand.IntN(10<<10)
			if rand.IntN(4) == 0 {
				n = 1 + rand.IntN(70<<10)
			}
			parts, size = append(parts, n), size+n
		}
		method := http.MethodGet
		if rand.IntN(10) == 0 {
			method = http.MethodHead
		}
		request, _ := http.NewRequest(method, "http://"+l.Addr().String(), nil)
		transport := &http.Transport{DisableKeepAlives: true} // each response has a connection of its own, whose writes it gathers
		res, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		<-handled
		if err != nil || method == http.MethodGet && !bytes.Equal(got, body[:size]) {
			t.Fatalf("parts %v: %d bytes of %d, %v", parts, len(got), size, err)
		}
		for _, w := range writes {
			if w.more {
				followed++
			}
		}
	}
	if followed < 1000 {
		t.Errorf("%d writes were said to be followed, which shows nothing", followed)
	}
}
