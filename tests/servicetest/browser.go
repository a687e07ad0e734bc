package servicetest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const App = "https://app.example"

// ForPages starts a service that allows two origins and lives at its own public address.
func ForPages(t *testing.T, changes ...Option) *Service {
	return New(t, append([]Option{func(o *Options) {
		o.AllowedOrigins = []string{App, "http://localhost:5173"}
	}}, changes...)...)
}

// Browser sends requests to the service at URL and keeps its cookies. It fails no test: a Result says what came of a request.
type Browser struct {
	URL       string
	Transport http.RoundTripper
	Cookies   map[string]string
	// Timeout is that of a request.
	Timeout time.Duration
}

// NewBrowser returns one without cookies.
func NewBrowser(address string, transport http.RoundTripper) *Browser {
	return &Browser{URL: address, Transport: transport, Cookies: make(map[string]string), Timeout: 30 * time.Second}
}

// Clone is another browser with the same cookies.
func (b *Browser) Clone() *Browser {
	other := *b
	other.Cookies = maps.Clone(b.Cookies)
	return &other
}

// Do sends a request, with a body of JSON unless an option says otherwise, and keeps the cookies of the response.
func (b *Browser) Do(method, path, body string, with ...RequestOption) (res Result) {
	res.Sent = time.Now()
	defer func() { res.Took = time.Since(res.Sent) }()
	r, err := http.NewRequest(method, b.URL+path, strings.NewReader(body))
	if err != nil {
		return Result{Err: err}
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for _, option := range with {
		option(r)
	}
	client := http.Client{Transport: b.Transport, Timeout: b.Timeout, CheckRedirect: plain.CheckRedirect}
	response, err := client.Do(r)
	if err != nil {
		res.Err = err
		return res
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	for _, cookie := range response.Cookies() {
		b.Cookies[cookie.Name] = cookie.Value
	}
	res.Status, res.Body, res.Header, res.Err = response.StatusCode, string(text), response.Header, err
	return res
}

// SignIn signs a user in on a service in development, with status 303.
func (b *Browser) SignIn(name string) Result {
	return b.Do("POST", "/sign-in", url.Values{"username": {name}}.Encode(), AsForm)
}

// Result is what a request came to.
type Result struct {
	Status int // 0 without a response
	Body   string
	Header http.Header
	Err    error
	Sent   time.Time
	Took   time.Duration
}

// IsJSON reports whether the response is a JSON document and says so.
func (res Result) IsJSON() bool {
	return res.Header.Get("Content-Type") == "application/json" && json.Valid([]byte(res.Body))
}

func (res Result) String() string {
	return fmt.Sprintf("%d %.300s %v after %v", res.Status, res.Body, res.Err, res.Took.Round(time.Millisecond))
}

// read returns the error in place of the body where there is one.
func (res Result) read() (status int, text string) {
	if res.Err != nil {
		return 0, fmt.Sprintf("%v after %d %s", res.Err, res.Status, res.Body)
	}
	return res.Status, res.Body
}
