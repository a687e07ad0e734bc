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
	cookies := func(r *http.Request) {
		for name, value := range b.Cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
	}
	client := &http.Client{Transport: b.Transport, Timeout: b.Timeout, CheckRedirect: followNone}
	response, text, err := send(client, method, b.URL+path, body, append([]RequestOption{cookies}, with...))
	res.Err = err
	if response != nil {
		for _, cookie := range response.Cookies() {
			b.Cookies[cookie.Name] = cookie.Value
		}
		res.Status, res.Body, res.Header = response.StatusCode, text, response.Header
	}
	return res
}

// send sends a request, with a body of JSON unless an option says otherwise, and reads the response, of which there is none without its head.
func send(client *http.Client, method, address, body string, with []RequestOption) (res *http.Response, text string, err error) {
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, change := range with {
		change(r)
	}
	if res, err = client.Do(r); err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	return res, string(content), err
}

func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

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
