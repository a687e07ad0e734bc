package servicetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/server"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/uuid"
)

// Contract is the text of openapi.yaml.
func Contract(tb testing.TB) []byte {
	tb.Helper()
	return []byte(Shipped(tb, "openapi.yaml"))
}

// Document is openapi.yaml, read and checked once for all tests of a process.
func Document(tb testing.TB) *openapi3.T {
	tb.Helper()
	return Must(document(tb))(tb)
}

// contract is openapi.yaml as the service reads it.
func contract(tb testing.TB) *server.Contract {
	tb.Helper()
	return Must(contractOf(tb))(tb)
}

var (
	document = once(func(text []byte) (*openapi3.T, error) {
		doc, err := openapi3.NewLoader().LoadFromData(text)
		if err != nil {
			return nil, err
		}
		return doc, doc.Validate(context.Background())
	})
	contractOf = once(server.ReadContract)
)

// once reads openapi.yaml with read, at the first call.
func once[T any](read func(text []byte) (T, error)) func(tb testing.TB) (T, error) {
	var reading sync.Once
	var got T
	var err error
	return func(tb testing.TB) (T, error) {
		tb.Helper()
		text := Contract(tb)
		reading.Do(func() { got, err = read(text) })
		return got, err
	}
}

// checkedTransport fails the test when a response breaks openapi.yaml, or a rule that holds for all responses.
type checkedTransport struct {
	*http.Transport
	tb      testing.TB
	doc     *openapi3.T
	hsts    string
	secrets sync.Map // every value that a session cookie was set to
}

func newCheckedTransport(tb testing.TB, base *http.Transport, o Options) *checkedTransport {
	base = base.Clone()
	base.DisableCompression = true
	base.MaxIdleConnsPerHost = 1000
	hsts := o.HSTS
	if o.Development {
		hsts = ""
	}
	return &checkedTransport{Transport: base, tb: tb, doc: Document(tb), hsts: hsts}
}

// RoundTrip implements http.RoundTripper.
func (c *checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, isList := r, c.isList(r)
	if isList {
		asked = r.Clone(r.Context())
		AlternateGzip(asked)
	}
	res, err := c.Transport.RoundTrip(asked)
	if err != nil {
		return nil, err
	}
	sent, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	body := sent
	if isList {
		if body, err = Decompress(res.Header, sent); err != nil {
			return nil, err
		}
	}
	for _, cookie := range res.Cookies() {
		if cookie.Value != "" {
			c.secrets.Store(cookie.Value, true)
		}
	}
	faults := c.faults(r, res, body)
	if isList && (res.StatusCode == http.StatusOK || res.StatusCode == http.StatusNotModified) {
		faults = append(faults, encodingFaults(asked, res, sent, body)...)
	}
	for _, fault := range faults {
		c.tb.Errorf("%s %s: %d %s\nbreaks the contract: %s", r.Method, r.URL.EscapedPath(), res.StatusCode, body, fault)
	}
	if r.Header["Accept-Encoding"] != nil { // the test wants to see what was sent
		body = sent
	} else if len(body) != len(sent) {
		res.Header.Del("Content-Encoding")
		res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// isList reports whether a request asks for a list.
func (c *checkedTransport) isList(r *http.Request) bool {
	op := c.operation(r)
	return op != nil && op.OperationID == "listEvents"
}

// faults says what is wrong with a response.
func (c *checkedTransport) faults(r *http.Request, res *http.Response, body []byte) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	want := func(name, value string) {
		if got := res.Header.Get(name); got != value {
			fault("header %s is %q, want %q", name, got, value)
		}
	}

	faults = append(faults, leaksInResponse(res, body)...)
	id := res.Header.Get("X-Request-Id")
	if len(id) != 36 || uuid.Validate(id) != nil {
		fault("X-Request-Id is %q", id)
	}
	want("X-Content-Type-Options", "nosniff")
	want("Strict-Transport-Security", c.hsts)
	for _, banner := range []string{"Server", "X-Powered-By"} {
		want(banner, "")
	}
	api := strings.HasPrefix(r.URL.EscapedPath(), "/api/")
	if api {
		want("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	} else if policy := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		fault("Content-Security-Policy is %q", policy)
	}
	opener, features, referrer := "", "", "no-referrer"
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		if r.Method == http.MethodHead {
			referrer = res.Header.Get("Referrer-Policy") // no body tells
		} else if bytes.Contains(body, []byte("<form")) || !bytes.Contains(body, []byte(`<code id="request">`)) {
			referrer = "strict-origin" // else a form has no Origin
		}
		opener, features = "same-origin", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
	}
	want("Referrer-Policy", referrer)
	want("Cross-Origin-Opener-Policy", opener)
	want("Permissions-Policy", features)
	if strings.HasPrefix(r.URL.Path, "/api/auth/") && r.Method != http.MethodOptions {
		want("Cache-Control", "no-store")
	}
	// Whatever a cookie may change varies by it; that is all but preflights, assets and the contract.
	varies := strings.Split(strings.Join(res.Header.Values("Vary"), ", "), ", ")
	if api && !slices.Contains(varies, "Origin") {
		fault("Vary is %q, want Origin in it", varies)
	}
	same := res.StatusCode < 400 && (slices.Contains([]string{"/openapi.json", "/openapi.yaml"}, r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]) ||
		strings.HasPrefix(res.Header.Get("Cache-Control"), "public")) || slices.Contains(varies, "Access-Control-Request-Method")
	if slices.Contains(varies, "Cookie") == same {
		fault("Vary is %q", varies)
	}

	op := c.operation(r)
	exact400 := op != nil && slices.Contains(op.Tags, "auth") && res.StatusCode == 400
	if res.StatusCode >= 400 && !exact400 && r.Method != http.MethodHead && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		faults = append(faults, errorFaults(res, body, id)...)
	}
	if res.StatusCode >= 400 {
		want("Cache-Control", "no-store")
		want("ETag", "")
		if !bytes.Contains(body, []byte("the next event alone")) {
			want("Link", "")
		}
	}
	if res.StatusCode >= 400 {
		// Errors are JSON, but for people outside of /api: those of windows, of the forms of three pages, and of /events when a form asks again.
		hasForms := strings.HasPrefix(r.URL.Path, "/sessions") || strings.HasPrefix(r.URL.Path, "/events") || strings.HasPrefix(r.URL.Path, "/sign-")
		asksForPage := strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path+"/", "/api/")
		switch isWindow := r.Method == http.MethodGet || r.Method == http.MethodHead; {
		case asksForPage && isWindow:
			want("Content-Type", "text/html; charset=utf-8")
		case !(asksForPage && hasForms) && !bytes.Contains(body, []byte(`role="alert"`)):
			want("Content-Type", "application/json")
		}
	}
	if op == nil {
		return faults
	}
	if res.StatusCode == 304 {
		if len(body) > 0 || res.Header.Get("ETag") == "" {
			fault("304 with a body or without ETag")
		}
		return faults
	}
	if op.OperationID == "listEvents" && res.StatusCode == 200 && len(body) > largeList {
		return append(faults, largeListFaults(body)...)
	}
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: r,
			Route:   &routers.Route{Spec: c.doc, Method: r.Method, Operation: op},
		},
		Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	// An id with a raw slash is a path that no operation has.
	if err != nil && !(res.StatusCode == 404 && bytes.Contains(body, []byte(`"code":"not_found"`))) {
		fault("%v", err)
	}
	return faults
}

// errorFaults holds an error against the one shape: exactly these members, in this order.
func errorFaults(res *http.Response, body []byte, id string) (faults []string) {
	var e struct {
		Error      string            `json:"error"`
		Code       string            `json:"code"`
		RequestID  string            `json:"requestId"`
		Fields     map[string]string `json:"fields,omitempty"`
		FieldCodes map[string]string `json:"fieldCodes,omitempty"`
		Detail     string            `json:"detail,omitempty"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return []string{err.Error()}
	}
	if got := asJSON(e); got != string(body) {
		faults = append(faults, "the shape of errors is "+got)
	}
	switch {
	case e.Error == "" || e.Code == "":
		faults = append(faults, "error or code is missing")
	case e.RequestID != id:
		faults = append(faults, "requestId is not X-Request-Id")
	case (e.Detail != "") != (res.StatusCode == 500):
		faults = append(faults, "detail belongs to 500, and only there")
	case (len(e.Fields) > 0) != (e.Code == "validation_failed"):
		faults = append(faults, "fields belong to validation_failed, and only there")
	case res.StatusCode == 401 && e.Error != "Not authenticated":
		faults = append(faults, "error of a 401 must be: Not authenticated")
	case (res.StatusCode == 429 || res.StatusCode == 503) != (res.Header.Get("Retry-After") != ""):
		faults = append(faults, "Retry-After belongs to 429 and 503")
	case res.StatusCode == 405 && res.Header.Get("Allow") == "":
		faults = append(faults, "405 without Allow")
	}
	return faults
}

// largeList is the size of a list, in bytes, above which largeListFaults stands in for the schema, which takes three times
// as long.
const largeList = 64 << 10

// faultlessLists has the hashes of large lists without faults. Tests in which many read the same list check it once.
var faultlessLists sync.Map

// largeListFaults holds a list against its one form: exactly these members, in this order, with no white space.
func largeListFaults(body []byte) (faults []string) {
	hash := sha256.Sum256(body)
	if _, ok := faultlessLists.Load(hash); ok {
		return nil
	}
	defer func() {
		if faults == nil {
			faultlessLists.Store(hash, nil)
		}
	}()
	type user struct {
		Username string `json:"username"`
	}
	type rsvp struct {
		User user `json:"user"`
	}
	type event struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Description string `json:"description"`
		ScheduledAt string `json:"scheduledAt"`
		RSVPs       []rsvp `json:"RSVPs"`
	}
	var list struct {
		Events []event `json:"events"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return []string{err.Error()}
	}
	for _, e := range list.Events {
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", e.ScheduledAt); err != nil || e.RSVPs == nil || len(e.ID) != 36 || e.Name == "" {
			faults = append(faults, fmt.Sprintf("an event of the list is %.200v", e))
		}
	}
	if asJSON(list) != string(body) {
		faults = append(faults, "the list has another form than its schema")
	}
	return faults
}

// operation finds the contract's operation of a request, nil when there is none.
func (c *checkedTransport) operation(r *http.Request) *openapi3.Operation {
	path := r.URL.EscapedPath()
	if id, ok := strings.CutPrefix(path, "/api/event/join/"); ok && !strings.Contains(id, "/") {
		path = "/api/event/join/{id}"
	} else if id, ok := strings.CutPrefix(path, "/api/event/"); ok && !strings.Contains(id, "/") {
		path = "/api/event/{id}"
	}
	item := c.doc.Paths.Value(path)
	if item == nil {
		return nil
	}
	return item.GetOperation(r.Method)
}
