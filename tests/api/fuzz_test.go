package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// The fuzz targets hold the service to three things, whatever it is sent: no crash, no 5xx, and no list that can no
// longer be read. make test runs the seeds and what is kept in testdata; make fuzz looks further.
// Kept is a part of what fuzzing from these seeds has found, at most 50 inputs for each target.

// fuzzed is a service that is called without a network between, and a session on it.
type fuzzed struct {
	*servicetest.Service
	token, refreshToken string
}

func newFuzzed(f *testing.F) *fuzzed {
	s := servicetest.New(f, func(o *servicetest.Options) { o.Log = slog.New(slog.DiscardHandler) })
	alice := s.SignIn("alice").Session
	return &fuzzed{s, alice.Token, alice.RefreshToken}
}

// send sends a request whose target is sent as written; status 0 means that net/http would not let it through.
func (z *fuzzed) send(t *testing.T, method, target, body string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	w.Code = 0
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") {
		return w
	}
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.URL, r.RequestURI, r.Header = u, target, header
	r.TLS = nil
	w.Code = 200
	z.Public.ServeHTTP(w, r)
	if w.Code >= 500 {
		t.Fatalf("%s %q: %d %s", method, target, w.Code, w.Body)
	}
	if kind := w.Header().Get("Content-Type"); strings.HasPrefix(target, "/api/") && w.Body.Len() > 0 && (kind != "application/json" || !json.Valid(w.Body.Bytes())) {
		t.Fatalf("%s %q: no JSON: %s %q", method, target, kind, w.Body)
	}
	return w
}

// signedIn are the headers of a request of alice's.
func (z *fuzzed) signedIn() http.Header {
	return http.Header{"Cookie": {"token=" + z.token}, "Content-Type": {"application/json"}}
}

// list reads a world's list, which must work.
func (z *fuzzed) list(t *testing.T, target string) (events []struct{ Name, Description, ScheduledAt string }) {
	t.Helper()
	w := z.send(t, "GET", target, "", z.signedIn())
	var body struct {
		Events []struct{ Name, Description, ScheduledAt string }
	}
	if w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &body) != nil {
		t.Fatalf("the list cannot be read: %d %q", w.Code, w.Body)
	}
	return body.Events
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		servicetest.EventBody, `{}`, `null`, `[]`, ``, `{"name":"n"}{}`, "\xff", `{"name":"\u0000","description":"","scheduledAt":"x"}`,
		`{"name":"😀","description":"a\tb\nc","scheduledAt":"9999-12-31T23:59:59.9999999999+14:00","x":[1e999,{"y":null}]}`,
		`{"name":"n","description":"","scheduledAt":"1969-12-31T23:59:59.999-00:00"}`,
		`{"name":"n","name":"m","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`,
		`{"NAME":"n","description":"","scheduledAt":"2030-02-30T25:61:61z"}`,
		`{"name":"n","description":"","scheduledAt":"2030-06-30T23:59:60Z"}`,
		`{"name":"\ud800","description":"\udc00","scheduledAt":"0000-00-00T00:00:00Z"}`,
	} {
		f.Add(seed)
	}
	z, n := newFuzzed(f), 0
	f.Fuzz(func(t *testing.T, body string) {
		n++
		world := fmt.Sprintf("/api/event/w%d", n)
		switch w := z.send(t, "POST", world, body, z.signedIn()); w.Code {
		case 200:
			var sent struct{ Name, Description string }
			if err := json.Unmarshal([]byte(body), &sent); err != nil {
				t.Fatalf("accepted what is no JSON: %q", body)
			}
			if events := z.list(t, world); len(events) != 1 {
				t.Fatalf("%d events after %q", len(events), body)
			}
		case 400, 413:
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

func FuzzPathAndQuery(f *testing.F) {
	for _, seed := range [][2]string{
		{"/api/event/w", ""}, {"/api/event/a%2Fb", "limit=1"}, {"/api/event/100%25", "limit=1000&cursor=x"},
		{"/api/event/%00", "from=2030-01-01T00:00:00Z&to=2030-01-01T00:00:00.0000000001%2B14:00"},
		{"/api/event/join/x", ""}, {"/api/event/", "a=%zz;b"}, {"/api/event/a/b", "limit=1&limit=2"}, {"/api/auth/session", "x"},
		{"/api/auth/refresh", ""}, {"//api/event/w", ""}, {"/api/event/..", "cursor=" + strings.Repeat("A", 100)},
		{"/api/event/%F0%9F%98%80", "limit=0"}, {"/api/event/%ff", "limit=-1"}, {"/api/event/.", "from=9999-12-31T23:59:59.9999Z"},
		{"/sign-out", ""}, {"/docs", ""}, {"/", "?"}, {"/api/event/" + strings.Repeat("%F0%9F%98%80", 128), "to=1970-01-01t00:00:00z"},
	} {
		f.Add(seed[0], seed[1])
	}
	z := newFuzzed(f)
	f.Fuzz(func(t *testing.T, path, query string) {
		path = "/" + strings.TrimPrefix(path, "/")
		target := path + "?" + query
		for _, method := range []string{"GET", "DELETE", "HEAD", "PUT", "OPTIONS"} {
			z.send(t, method, target, "", z.signedIn())
		}
		z.send(t, "POST", target, "", http.Header{"Cookie": {"token=" + z.token}})
		// A world in which an event can be made has a list; only pages of it, or the query may ask for nothing.
		if w := z.send(t, "POST", path, servicetest.EventBody, z.signedIn()); w.Code == 200 && w.Header().Get("Event-Id") != "" {
			if len(z.list(t, path+"?limit=1")) != 1 {
				t.Fatalf("%q is not where it was made", path)
			}
		}
	})
}

func FuzzJWT(f *testing.F) {
	z := newFuzzed(f)
	for _, seed := range [][2]string{
		{`{"alg":"HS256"}`, `{"sub":"s","exp":4102444800}`}, {`{"alg":"none"}`, `{}`}, {`{"alg":"HS256","kid":"../../x"}`, `{"sub":"s"}`},
		{`{"alg":"HS256","kid":7,"crit":["x"]}`, `{"sub":7,"exp":"1"}`}, {``, ``}, {`null`, `null`}, {`[]`, `[]`},
		{`{"alg":"HS256"}`, `{"sub":"s","exp":1e400}`}, {`{"alg":"HS256"}`, `{"sub":"s","exp":-1e18,"nbf":1e18,"iat":0.5}`},
		{`{"alg":"HS256"}`, `{"sub":"s","exp":4102444800,"aud":["a",1],"iss":{}}`}, {`{"alg":"HS256"}`, `{"sub":"\ud800","exp":253402300799.999}`},
		{`{"alg":"HS256"}`, `{"sub":"s","exp":1,"username":"\r\nSet-Cookie: a=b"}`}, {`{"alg":"HS512"}`, `{"sub":"' OR 1=1","exp":4102444800}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, header, claims string) {
		signed := servicetest.Sign(servicetest.Key, header, claims)
		for _, token := range []string{signed, header + "." + claims, signed[:len(signed)-1]} {
			cookies := http.Header{"Cookie": {"token=" + token + "; refreshToken=" + z.refreshToken}}
			w := z.send(t, "GET", "/api/auth/session", "", cookies)
			var c struct{ Exp float64 }
			if w.Code == 200 && (token != signed || json.Unmarshal([]byte(claims), &c) != nil || c.Exp < 1e9) {
				t.Fatalf("accepted %q %q", header, claims)
			}
			if w.Header()["Set-Cookie"] != nil {
				t.Fatalf("refreshed by %q", claims) // the id of the one user is in no input
			}
			for _, method := range []string{"GET", "DELETE"} {
				if w := z.send(t, method, "/api/event/w", "", cookies); w.Code == 200 && token != signed {
					t.Fatalf("%s let in by %q", method, token)
				}
			}
		}
	})
}

func FuzzCookies(f *testing.F) {
	for _, seed := range []string{
		"token=$T", "token=$T; refreshToken=$R", "token=$T\ntoken=$T", "token=$T; token=x", `token="$T"`, "TOKEN=$T", "token =$T", "; ;;=;token=$T",
		"refreshToken=$R\nrefreshToken=", "token", "=", "token=$T,refreshToken=$R", strings.Repeat("a=b; ", 100), "token=$T\x00", "refreshToken=$R;\ttoken=x",
	} {
		f.Add(seed)
	}
	z := newFuzzed(f)
	f.Fuzz(func(t *testing.T, lines string) {
		cookies := strings.NewReplacer("$T", z.token, "$R", z.refreshToken).Replace(lines)
		header := http.Header{"Cookie": strings.Split(cookies, "\n")}
		w := z.send(t, "GET", "/api/auth/refresh", "", header)
		if w.Code == 200 {
			servicetest.Contains(t, cookies, z.refreshToken)
			for _, cookie := range w.Result().Cookies() {
				if cookie.Name == "token" {
					z.token = cookie.Value
				} else {
					z.refreshToken = cookie.Value
				}
			}
		}
		before := cookies
		if w := z.send(t, "GET", "/api/auth/session", "", header); w.Code == 200 && !strings.Contains(before, "token=") {
			t.Fatalf("let in by %q", lines)
		}
		z.send(t, "GET", "/api/event/w", "", header)
		z.send(t, "POST", "/sign-out", "", http.Header{"Cookie": {strings.ReplaceAll(lines, "$", "")}})
	})
}
