package servicetest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/server"
)

// Client is a browser without scripts: it keeps cookies and follows no redirect.
type Client struct {
	// Session is what SignIn issued.
	Session server.Session

	s    *Service
	http *http.Client
}

// Client returns a client without cookies.
func (s *Service) Client() *Client {
	cookies, _ := cookiejar.New(nil) // never fails
	return &Client{s: s, http: &http.Client{
		Transport:     s.transport,
		Jar:           jar{cookies},
		CheckRedirect: followNone,
		Timeout:       time.Minute,
	}}
}

// jar forgets a cookie when the service says so, and never because of its age, which it would count by another clock than that of
// the service.
type jar struct{ *cookiejar.Jar }

// SetCookies implements http.CookieJar.
func (j jar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	var ageless []*http.Cookie
	for _, cookie := range cookies {
		kept := *cookie
		kept.Expires, kept.MaxAge = time.Time{}, min(cookie.MaxAge, 0)
		ageless = append(ageless, &kept)
	}
	j.Jar.SetCookies(u, ageless)
}

// SignIn signs the user in, making the user if need be, and returns a client with the two cookies.
func (s *Service) SignIn(username string) *Client {
	s.tb.Helper()
	c := s.Client()
	c.Session = Must(s.Server.SignIn(context.Background(), models.Who{Username: username}, true))(s.tb)
	c.SetCookie("token", c.Session.Token)
	c.SetCookie("refreshToken", c.Session.RefreshToken)
	return c
}

// On returns a client of another instance that shares c's cookies.
func (c *Client) On(s *Service) *Client {
	other := s.Client()
	other.Session = c.Session
	other.SetCookie("token", c.Cookie("token"))
	other.SetCookie("refreshToken", c.Cookie("refreshToken"))
	return other
}

// SetCookie puts a cookie into the jar; an empty value removes it.
func (c *Client) SetCookie(name, value string) {
	cookie := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true}
	if value == "" {
		cookie.MaxAge = -1
	}
	c.http.Jar.SetCookies(c.root(), []*http.Cookie{cookie})
}

// Cookie returns the value of a cookie in the jar, or "".
func (c *Client) Cookie(name string) string {
	for _, cookie := range c.http.Jar.Cookies(c.root()) {
		if cookie.Name == name {
			return cookie.Value
		}
	}
	return ""
}

func (c *Client) root() *url.URL {
	u, _ := url.Parse(c.s.URL + "/")
	return u
}

// RequestOption alters a request.
type RequestOption func(*http.Request)

// Header sets a header, or removes it when value is empty.
func Header(name, value string) RequestOption {
	return func(r *http.Request) {
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
}

// Cookies sets the header Cookie, one line for each text, byte for byte. Use it on a client without cookies.
func Cookies(lines ...string) RequestOption {
	return func(r *http.Request) { r.Header["Cookie"] = lines }
}

// Origin sets the header Origin.
func Origin(origin string) RequestOption { return Header("Origin", origin) }

// Get asks for a path, which is sent exactly as written.
func (c *Client) Get(path string, with ...RequestOption) *Response {
	c.s.tb.Helper()
	return c.Do("GET", path, "", with...)
}

// Post sends a JSON body, or none when it is empty.
func (c *Client) Post(path, body string, with ...RequestOption) *Response {
	c.s.tb.Helper()
	return c.Do("POST", path, body, with...)
}

// Submit sends a form as a page without script does.
func (c *Client) Submit(path, form string, with ...RequestOption) *Response {
	c.s.tb.Helper()
	return c.Post(path, form, append([]RequestOption{AsForm, Navigates}, with...)...)
}

// Delete sends DELETE.
func (c *Client) Delete(path string, with ...RequestOption) *Response {
	c.s.tb.Helper()
	return c.Do("DELETE", path, "", with...)
}

// Create creates an event and returns its id.
func (c *Client) Create(world, name, scheduledAt string) string {
	c.s.tb.Helper()
	body, _ := json.Marshal(map[string]string{"name": name, "description": "", "scheduledAt": scheduledAt})
	return c.Post("/api/event/"+url.PathEscape(world), string(body)).Is(200, Success).Header.Get("Event-Id")
}

// Do sends a request and reads the response whole. A request that gets no response fails the test and has status 0.
func (c *Client) Do(method, path, body string, with ...RequestOption) *Response {
	c.s.tb.Helper()
	response := &Response{tb: c.s.tb, what: method + " " + path}
	res, text, err := send(c.http, method, c.s.URL+path, body, with)
	if err != nil {
		c.s.tb.Errorf("%s: %v", response.what, err)
	}
	if res != nil {
		response.Status, response.Header, response.Body, response.cookies = res.StatusCode, res.Header, text, res.Cookies()
		response.Close = res.Close
	}
	return response
}

// Raw sends text over a connection of its own and returns what comes back until the connection ends, or is silent for
// half a second.
func (s *Service) Raw(text string) string {
	s.tb.Helper()
	conn := Must(tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true}))(s.tb)
	defer conn.Close()
	Must(io.WriteString(conn, text))(s.tb)
	var response []byte
	for buffer := make([]byte, 64<<10); ; {
		conn.SetReadDeadline(time.Now().Add(rawPatience(response)))
		n, err := conn.Read(buffer)
		if response = append(response, buffer[:n]...); err != nil {
			return string(response)
		}
	}
}

// rawPatience is long until the first byte has come.
func rawPatience(response []byte) time.Duration {
	if len(response) == 0 {
		return 30 * time.Second
	}
	return 500 * time.Millisecond
}

// The bodies that the contract fixes.
const (
	Success       = `{"success":true}`
	Authenticated = `{"authenticated":true}`

	SessionNoToken        = `{"authenticated":false,"error":"No token"}`
	SessionInvalid        = `{"authenticated":false,"error":"Invalid token"}`
	SessionNoRefresh      = `{"authenticated":false,"error":"No refresh token"}`
	SessionInvalidRefresh = `{"authenticated":false,"error":"Invalid refresh token"}`
	NoRefresh             = `{"error":"No refresh token"}`
	InvalidRefresh        = `{"error":"Invalid refresh token"}`
)

// Response is what came back, read whole.
type Response struct {
	Status int
	Header http.Header
	Body   string
	// Close means that the service ends the connection.
	Close bool

	what    string
	cookies []*http.Cookie
	tb      testing.TB
}

// Is fails the test unless status and body are exactly these.
func (r *Response) Is(status int, body string) *Response {
	r.tb.Helper()
	if r.Status != status || r.Body != body {
		r.tb.Errorf("%s:\n got %d %s\nwant %d %s", r.what, r.Status, r.Body, status, body)
	}
	return r
}

// Has fails the test unless the response has this status, and all parts are in its body.
func (r *Response) Has(status int, parts ...string) *Response {
	r.tb.Helper()
	if r.Status != status {
		r.tb.Errorf("%s: got %d %.2000s, want %d", r.what, r.Status, r.Body, status)
	}
	Contains(r.tb, r.Body, parts...)
	return r
}

// IsError fails the test unless the response is this error, about exactly these fields.
func (r *Response) IsError(status int, code string, fields ...string) *Response {
	r.tb.Helper()
	e := r.Error()
	same := len(e.Fields) == len(fields) && len(e.FieldCodes) == len(fields)
	for _, name := range fields {
		same = same && e.Fields[name] != "" && e.FieldCodes[name] != ""
	}
	if r.Status != status || e.Code != code || !same {
		r.tb.Errorf("%s:\n got %d %s\nwant %d %s %q", r.what, r.Status, r.Body, status, code, fields)
	}
	return r
}

// HasHeader fails the test unless a header is exactly this; "" means absent.
func (r *Response) HasHeader(name, value string) *Response {
	r.tb.Helper()
	if got := strings.Join(r.Header.Values(name), ", "); got != value {
		r.tb.Errorf("%s: %s: got %q, want %q", r.what, name, got, value)
	}
	return r
}

// SetsNoCookie fails the test if a cookie is set.
func (r *Response) SetsNoCookie() *Response {
	r.tb.Helper()
	return r.HasHeader("Set-Cookie", "")
}

// Cookie returns the cookie that the response sets; without one it fails the test and returns an empty one.
func (r *Response) Cookie(name string) *http.Cookie {
	r.tb.Helper()
	for _, cookie := range r.cookies {
		if cookie.Name == name {
			return cookie
		}
	}
	r.tb.Errorf("%s: sets no cookie %s", r.what, name)
	return new(http.Cookie)
}

// APIError is the one shape of errors.
type APIError struct {
	Error, Code, RequestID, Detail string
	Fields, FieldCodes             map[string]string
}

// Error reads the body of an error.
func (r *Response) Error() (e APIError) {
	r.tb.Helper()
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil {
		r.tb.Errorf("%s: %d is no JSON error: %q", r.what, r.Status, r.Body)
	}
	return e
}

// Accepting is a header Accept-Encoding of these lines.
func Accepting(lines ...string) RequestOption {
	return func(r *http.Request) { r.Header["Accept-Encoding"] = lines }
}

// Content is what a response contains, compressed or not.
func Content(t *testing.T, res *Response) string {
	t.Helper()
	text, err := Decompress(res.Header, []byte(res.Body))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

const (
	SessionPath = "/api/auth/session"
	RefreshPath = "/api/auth/refresh"
)

var AsForm = Header("Content-Type", "application/x-www-form-urlencoded")

// Navigates says that a window shows the response (Fetch Metadata, section 2.2).
var Navigates = Header("Sec-Fetch-Mode", "navigate")

// Chunked sends a body without saying how long it is.
func Chunked(r *http.Request) { r.ContentLength, r.GetBody = -1, nil }

// IfNoneMatch is sent by those who have a list already.
func IfNoneMatch(tag string) RequestOption {
	return Header("If-None-Match", tag)
}

// AtOnce calls f n times concurrently, at most 200 at a time, all waiting for the same start.
func AtOnce(n int, f func(i int)) {
	var wait sync.WaitGroup
	begin, next := make(chan struct{}), atomic.Int64{}
	for range min(n, 200) {
		wait.Go(func() {
			<-begin
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	close(begin)
	wait.Wait()
}

// slowBody is a request body that comes when it is sent to the channel.
type slowBody struct{ text chan string }

func NewSlowBody() (io.ReadCloser, chan<- string) {
	text := make(chan string)
	return slowBody{text}, text
}

func (b slowBody) Read(p []byte) (int, error) {
	text, ok := <-b.text
	if !ok {
		return 0, io.EOF
	}
	return copy(p, text), nil
}

func (slowBody) Close() error { return nil }
