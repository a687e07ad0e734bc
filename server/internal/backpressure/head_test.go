package backpressure

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// chunks is a connection that brings texts in parts, each of one text alone.
type chunks struct {
	net.Conn
	texts []string
	parts func() int
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.texts) > 0 && c.texts[0] == "" {
		c.texts = c.texts[1:]
	}
	if len(c.texts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.texts[0][:min(len(c.texts[0]), c.parts())])
	c.texts[0] = c.texts[0][n:]
	return n, nil
}

// However a connection brings requests one after another, they arrive as they were sent, up to the first head that has too many lines.
func TestHeads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var texts, bodies []string
		tooMany := -1
		for i := range rapid.IntRange(1, 4).Draw(t, "requests") {
			lines := rapid.SampledFrom([]int{0, 1, 5, 100, 103, 104, 300}).Draw(t, "lines")
			body := strings.Repeat(rapid.SampledFrom([]string{"\n", "x", "\r\n", "x\n"}).Draw(t, "body"), rapid.IntRange(0, 200).Draw(t, "length"))
			bodies = append(bodies, body)
			var sent strings.Builder
			fmt.Fprintf(&sent, "POST / HTTP/1.1\r\nContent-Length: %d\r\n", len(body))
			for j := 1; j < lines; j++ {
				fmt.Fprintf(&sent, "H%d: v\r\n", j)
			}
			sent.WriteString("\r\n" + body)
			texts = append(texts, sent.String())
			if 1+max(1, lines) >= maxHeadLines {
				tooMany = i
				break
			}
		}
		c := &Conn{Conn: &chunks{texts: texts, parts: func() int { return rapid.IntRange(1, 700).Draw(t, "part") }}}
		r := bufio.NewReader(c)
		for i, body := range bodies {
			req, err := http.ReadRequest(r)
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			if c.Truncated() != (i == tooMany) {
				t.Fatalf("request %d: truncated: %t", i, c.Truncated())
			}
			if i == tooMany {
				if n := len(req.Header); n > maxHeadLines {
					t.Fatalf("%d header lines", n)
				}
				if text, _ := io.ReadAll(r); len(text) > 0 {
					t.Fatalf("%q came behind it", text)
				}
				break
			}
			if rapid.Bool().Draw(t, "early") && body == "" { // refused before it is counted
				c.Handled()
				continue
			}
			c.Begin(new(Request))
			got, err := io.ReadAll(req.Body)
			if err != nil || string(got) != body {
				t.Fatalf("request %d: %q %v, want %q", i, got, err, body)
			}
			c.End()
			c.Handled()
		}
	})
}

// What is encrypted passes, whatever it is.
func TestHeadsOfTLS(t *testing.T) {
	text := "\x16" + strings.Repeat("x\n", 1000)
	c := &Conn{secured: true, Conn: &chunks{texts: []string{text}, parts: func() int { return 100 }}}
	if got, err := io.ReadAll(c); string(got) != text || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
