package hostile

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// operation is what the attacker asks for.
type operation struct {
	name, method string
	path         func(s *service) string
	body         func(s *service) string // "" for none
	form         bool
}

func fixed(text string) func(*service) string { return func(*service) string { return text } }

const create = `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`

// operations are those of the contract, the pages, and what does not exist.
var operations = []operation{
	{"getSession", "GET", fixed("/api/auth/session"), fixed(""), false},
	{"refreshSession", "GET", fixed("/api/auth/refresh"), fixed(""), false},
	{"createEvent", "POST", fixed("/api/event/attacked"), fixed(create), false},
	{"listEvents", "GET", fixed("/api/event/sixty"), fixed(""), false},
	{"joinEvent", "POST", func(s *service) string { return "/api/event/join/" + s.event }, fixed(""), false},
	{"leaveEvent", "DELETE", func(s *service) string { return "/api/event/" + s.event }, fixed(""), false},
	{"showSessions", "GET", fixed("/sessions"), fixed(""), false},
	{"endSession", "POST", fixed("/sessions/end"), func(s *service) string { return url.Values{"id": {s.event}}.Encode() }, true},
	{"endOtherSessions", "POST", fixed("/sessions/end-others"), fixed("all=1"), true},
	{"showEvents", "GET", fixed("/events"), fixed(""), false},
	{"editEvent", "POST", fixed("/events/edit"), func(s *service) string {
		return url.Values{"id": {s.event}, "shown": {"x"}, "name": {"n"}, "description": {""}, "scheduledAt": {"2030-01-01T00:00"}}.Encode()
	}, true},
	{"signOut", "POST", fixed("/sign-out"), fixed("return_to=%2F"), true},
	{"signIn", "POST", fixed("/sign-in"), fixed("username=attacked"), true},
	{"docs", "GET", fixed("/docs"), fixed(""), false},
	{"unknown", "GET", fixed("/nowhere"), fixed(""), false},
}

// request is what a connection of the attacker sends.
type request struct {
	method, path string
	header       []string // lines
	cutHead      bool     // the end of the head is never sent
	framing      string   // how a body is announced: "" for none, byLength, byChunks
	announced    int      // bytes, by length
	body         string   // what is sent of it
	behind       string   // what is sent behind the request
	copies       int      // how often all this is sent, without waiting for a response
}

const byLength, byChunks = "length", "chunks"

func (r *request) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n%s\r\n", r.method, r.path, strings.Join(r.header, "\r\n"))
	switch r.framing {
	case byLength:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", r.announced)
	case byChunks:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if r.cutHead {
		return b.String()
	}
	b.WriteString("\r\n" + r.body + r.behind)
	return strings.Repeat(b.String(), r.copies)
}

// announce has a body be announced, of which nothing is sent.
func (r *request) announce(framing string) {
	r.framing, r.body, r.announced = framing, "", max(64, r.announced)
}

// state is how far the service is with the attacked requests.
type state struct {
	name string
	only string // the one operation that has it, "" for all
	set  func(s *service, r *request)
}

// maxSmall is how many connections the attacker has where each of them costs the processor much: that is no fault.
const maxSmall = 70

var states = []state{
	{"head", "", func(_ *service, r *request) { r.cutHead = true }},
	{"body", "", func(_ *service, r *request) {
		if r.framing == "" {
			r.announce(byLength)
		}
		r.announced += 10 // which never come
		if r.body += "{"; r.method != "POST" {
			r.body = " "
		}
	}},
	{"wait", "listEvents", func(s *service, r *request) {
		r.path += "?wait=50"
		r.header = append(r.header, "If-None-Match: "+s.tag)
	}},
	{"writes", "", func(_ *service, r *request) { r.path = large(r.path) }},
	{"is-read-slowly", "", func(_ *service, r *request) { r.path = large(r.path) }},
}

// large is the path of a list that no buffer of the network holds, where the path is that of a list.
func large(path string) string { return strings.Replace(path, "/sixty", "/large", 1) }

// way is one of being bad. It changes the request, and then has a connection do something until the attack ends; nil is nothing.
type way struct {
	name   string
	states []string
	most   int // connections; 0 stands for manyConns
	change func(r *request)
	then   func(c *client)
}

// manyConns are as many as pass every bound on requests with a body, and heldConns as many as an attacker may hold.
const manyConns, heldConns = 1100, 4000

var anyState = []string{"head", "body", "wait", "writes", "is-read-slowly"}

// every is how often a connection sends or reads a little.
const every = 250 * time.Millisecond

var ways = []way{
	{"slow-head", []string{"head"}, 0, nil, func(c *client) { c.drip("X") }},
	{"silent-head", []string{"head"}, heldConns, nil, nil},
	{"slow-body", []string{"body", "wait", "writes"}, 0, func(r *request) { r.announce(byLength) }, func(c *client) { c.drip(" ") }},
	{"unsent-length", anyState[1:], 0, func(r *request) { r.announce(byLength) }, nil},
	{"unsent-chunks", anyState[1:], 0, func(r *request) { r.announce(byChunks) }, nil},
	{"surplus", []string{"wait", "writes", "is-read-slowly"}, 0, func(r *request) { r.behind = strings.Repeat("x", 8<<10) }, nil},
	{"reads-nothing", []string{"wait", "writes"}, 0, nil, nil},
	{"reads-slowly", []string{"wait", "is-read-slowly"}, 300, nil, (*client).readSlowly},
	{"hangs-up", anyState, 0, nil, func(c *client) { c.pause(100 * time.Millisecond); c.conn.Close() }},
	{"many-lines", anyState[:4], 0, func(r *request) { r.header = append(r.header, lines(15_500-r.size(), "abc:")...) }, nil},
	{"many-names", anyState[:4], 0, func(r *request) {
		for i := 0; r.size() < 15_500; i++ {
			r.header = append(r.header, fmt.Sprintf("h%d:", i))
		}
	}, nil},
	{"long-lines", anyState[:4], 0, func(r *request) {
		r.header = append(r.header, "X-Long: "+strings.Repeat("x", 7000), "X-Other: "+strings.Repeat("y", max(0, 7000-r.size())))
	}, nil},
	{"many-tags", anyState[:4], 0, func(r *request) {
		tags := "If-None-Match: " + strings.Repeat(`"",`, (14_000-r.size())/3)
		for i, line := range r.header {
			if tag, ok := strings.CutPrefix(line, "If-None-Match: "); ok {
				r.header[i] = tags + tag
				return
			}
		}
		r.header = append(r.header, tags+`""`)
	}, nil},
	{"pipelining", []string{"body", "wait", "writes"}, maxSmall, func(r *request) { r.copies = 20 }, nil},
	{"half-closed", anyState, 0, nil, (*client).closeWrite},
	{"expects", []string{"body", "wait", "writes"}, 0, func(r *request) {
		r.announce(byLength)
		r.header = append(r.header, "Expect: 100-continue")
	}, nil},
	{"late-byte", []string{"wait", "writes"}, 0, nil, func(c *client) { c.pause(100 * time.Millisecond); c.send("x") }},
}

// size is how many bytes the head has so far.
func (r *request) size() int {
	return len(r.method) + len(r.path) + len(strings.Join(r.header, "\r\n"))
}

// lines are as many lines as have so many bytes together.
func lines(bytes int, line string) (all []string) {
	for range bytes / (len(line) + 2) {
		all = append(all, line)
	}
	return all
}

// conns is how many connections the attacker of a cell has. A handshake costs the processor as much as dozens of requests: where
// TLS is on the path there are many only where a bound on requests is to be passed.
func (c cell) conns() int {
	n := c.way.most
	switch {
	case c.operation.name == "signIn" && c.state.name != "head" && c.state.name != "body": // a load for the database, which all sign in as one user
		n = maxSmall
	case n == 0 && (c.path == direct || c.state.name == "body" || c.state.name == "wait"):
		n = manyConns
	case n == 0, n == heldConns && c.path != direct:
		n = 300
	}
	if c.path == tlsPath && c.state.name == "writes" {
		n = min(n, 300)
	}
	return n
}

// request is what connection i of the attacker sends.
func (c cell) request(s *service, cookies []string, i int) string {
	r := &request{method: c.operation.method, path: c.operation.path(s), header: []string{"Host: localhost"}, copies: 1}
	if len(cookies) > 0 {
		r.header = append(r.header, "Cookie: "+cookies[i%len(cookies)])
	}
	if body := c.operation.body(s); body != "" {
		r.framing, r.body, r.announced = byLength, body, len(body)
		r.header = append(r.header, "Content-Type: "+map[bool]string{false: "application/json", true: "application/x-www-form-urlencoded"}[c.operation.form])
	}
	c.state.set(s, r)
	if c.way.change != nil {
		c.way.change(r)
	}
	if c.state.name == "body" && r.framing == byLength && c.way.name != "expects" {
		r.body = (r.body + "{")[:1]
	}
	return r.text()
}
