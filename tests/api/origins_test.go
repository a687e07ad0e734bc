package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// exposed is what scripts of an allowed origin may read.
const exposed = "Event-Id, Idempotency-Key, Session-User, Session-Expires, ETag, Link, Retry-After, X-Request-Id"

func TestCORSResponses(t *testing.T) {
	t.Parallel()
	s := servicetest.ForPages(t)
	alice := s.SignIn("alice")
	alice.Create("plaza", "n", servicetest.When)
	tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
	expired := servicetest.Cookies("token=" + s.Expired(alice.Session.UserID))
	call := func(origin string) []*servicetest.Response {
		from := servicetest.Origin(origin)
		return []*servicetest.Response{
			alice.Get(servicetest.Plaza, from),
			alice.Get(servicetest.Plaza, from, servicetest.IfNoneMatch(tag)),
			alice.Get(servicetest.Plaza+"?limit=0", from),
			s.Client().Get(servicetest.Plaza, from, expired),
			s.Client().Get(servicetest.Plaza, from),
			alice.Get("/api/nothing", from),
			alice.Do("PUT", servicetest.Plaza, "", from),
			alice.Do("OPTIONS", servicetest.Plaza, "", from),
			alice.Post("/api/event/join/x", "", from),
			alice.Post(servicetest.Plaza, "[", from),
			alice.Get(servicetest.SessionPath, from),
			s.Client().Get(servicetest.SessionPath, from),
			s.Client().Get(servicetest.RefreshPath, from),
			s.Client().Post("/sign-out", "", from),
		}
	}
	for _, origin := range []string{servicetest.App, "http://localhost:5173"} {
		for _, res := range call(origin) {
			res.HasHeader("Access-Control-Allow-Origin", origin).HasHeader("Access-Control-Allow-Credentials", "true").
				HasHeader("Access-Control-Expose-Headers", exposed)
			servicetest.Lacks(t, res.Body, "cross_origin")
			servicetest.Contains(t, strings.Join(res.Header.Values("Vary"), ", "), "Origin")
		}
	}
	for _, origin := range []string{
		"", "https://evil.example", "null", "*", "http://app.example", "https://app.example:443", "https://app.example/", "https://APP.example", "https://app.example.",
		"https://app.example.evil.example", "https://xapp.example", "https://sub.app.example", "http://localhost:51730", "https://app.example, https://evil.example",
		"https://app.example%00.evil.example", "https://app.example@evil.example", s.URL,
	} {
		for _, res := range call(origin) {
			for _, name := range []string{"Origin", "Credentials", "Methods", "Headers"} {
				res.HasHeader("Access-Control-Allow-"+name, "")
			}
			res.HasHeader("Access-Control-Expose-Headers", "").HasHeader("Access-Control-Max-Age", "")
		}
	}
	// Docs and pages are nobody's API.
	for _, path := range []string{"/sign-in", "/sessions", "/events"} {
		alice.Get(path, servicetest.Origin(servicetest.App)).HasHeader("Access-Control-Allow-Origin", "").HasHeader("Cross-Origin-Resource-Policy", "same-origin")
	}
}

func TestCORSPreflights(t *testing.T) {
	t.Parallel()
	s := servicetest.ForPages(t)
	preflight := func(path, origin, method, headers string) *servicetest.Response {
		return s.Client().Do("OPTIONS", path, "", servicetest.Origin(origin), servicetest.Header("Access-Control-Request-Method", method),
			servicetest.Header("Access-Control-Request-Headers", headers), servicetest.Header("Sec-Fetch-Site", "cross-site"), servicetest.Header("Sec-Fetch-Mode", "cors"))
	}
	for _, path := range []string{servicetest.Plaza, "/api/event/join/x", servicetest.SessionPath, servicetest.RefreshPath, "/sign-out", "/api/event/a%2Fb"} {
		for _, headers := range []string{"", "content-type", "content-type,if-none-match", "traceparent,baggage,sentry-trace"} {
			preflight(path, servicetest.App, "POST", headers).Is(204, "").
				HasHeader("Access-Control-Allow-Origin", servicetest.App).HasHeader("Access-Control-Allow-Credentials", "true").
				HasHeader("Access-Control-Allow-Methods", "GET, POST, DELETE").HasHeader("Access-Control-Allow-Headers", headers).
				HasHeader("Access-Control-Max-Age", "600").HasHeader("Access-Control-Expose-Headers", "").SetsNoCookie().
				HasHeader("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
		}
		for _, origin := range []string{"https://evil.example", "null", s.URL, ""} {
			res := preflight(path, origin, "POST", "content-type").SetsNoCookie()
			for _, name := range []string{"Allow-Origin", "Allow-Credentials", "Allow-Methods", "Allow-Headers", "Max-Age"} {
				res.HasHeader("Access-Control-"+name, "")
			}
		}
	}
}

// Nobody allowed means nobody, whatever the empty list means to a library.
func TestCORSAllowsNobodyByDefault(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Production)
	for _, origin := range []string{servicetest.App, "null", "*", s.URL} {
		s.Client().Get(servicetest.SessionPath, servicetest.Origin(origin)).HasHeader("Access-Control-Allow-Origin", "").HasHeader("Access-Control-Allow-Credentials", "")
		s.Client().Do("OPTIONS", servicetest.Plaza, "", servicetest.Origin(origin), servicetest.Header("Access-Control-Request-Method", "POST")).
			HasHeader("Access-Control-Allow-Origin", "").HasHeader("Access-Control-Allow-Methods", "")
	}
}

// What a page elsewhere sends with the user's cookies must change nothing.
func TestCrossOriginRequests(t *testing.T) {
	t.Parallel()
	s := servicetest.ForPages(t, func(o *servicetest.Options) {
		o.Docs, o.EventsPage = true, true
		o.BaseURL, _ = url.Parse("https://public.example/api-behind-a-proxy")
	})
	alice := s.SignIn("alice").Session
	id := s.SignIn("bob").Create("plaza", "n", servicetest.When)
	own := s.URL // the origin of Host
	changing := []struct{ method, path, body string }{
		{"POST", servicetest.Plaza, servicetest.EventBody}, {"POST", "/api/event/join/" + id, ""}, {"DELETE", "/api/event/" + id, ""}, {"GET", servicetest.SessionPath, ""}, {"GET", servicetest.RefreshPath, ""}, {"POST", "/sign-out", ""},
		{"POST", "/sign-in", "username=x"}, {"POST", "/sessions/end", "id=x"}, {"POST", "/sessions/end-others", ""}, {"POST", "/events/edit", "id=x"}, {"POST", "/events/cancel", "id=x"}, {"POST", "/events/leave", "id=x"},
	}
	type header struct{ site, origin string }
	passing := []header{
		{"", ""}, {"none", ""}, // no browser, and typed by the user
		{"same-origin", ""}, {"same-origin", own}, {"", own}, {"cross-site", servicetest.App}, {"same-site", servicetest.App}, {"", servicetest.App},
		{"cross-site", "http://localhost:5173"}, {"cross-site", "https://public.example"}, {"", "https://public.example"}, // BASE_URL is always trusted
	}
	for i, test := range append(passing, []header{
		{"same-site", ""}, {"cross-site", ""}, {"nonsense", ""}, {"SAME-ORIGIN", ""}, {"cross-site", "null"}, {"", "null"}, {"cross-site", "https://evil.example"},
		{"", "https://evil.example"}, {"", "https://app.example.evil.example"}, {"", "https://evil-app.example"}, {"", "https://app.example:8443"}, {"", "http://app.example"},
		{"same-site", "https://sub.app.example"}, {"", "https://sub.app.example"}, {"", "https://public.example:444"}, {"", "http://public.example"},
		{"", "https://public.example.evil.example"}, {"", own[:len(own)-1]}, {"", "https://127.0.0.1"}, {"", "nonsense"},
	}...) {
		passes := i < len(passing)
		s.Run(t, fmt.Sprintf("Sec-Fetch-Site %q, Origin %q", test.site, test.origin), func(t *testing.T) {
			for _, call := range changing {
				// With garbage for cookies: who is refused for the origin is refused first, and nobody signs anybody out.
				with := []servicetest.RequestOption{servicetest.Header("Sec-Fetch-Site", test.site), servicetest.Origin(test.origin), servicetest.Cookies("token=x; refreshToken=x")}
				if !strings.HasPrefix(call.path, "/api/") {
					with = append(with, servicetest.AsForm)
				}
				res := s.Client().Do(call.method, call.path, call.body, with...)
				refused := res.Status == 403
				if refused == passes {
					t.Errorf("%s %s: %d %s", call.method, call.path, res.Status, res.Body)
				}
				if refused {
					res.IsError(403, "cross_origin").SetsNoCookie()
				}
			}
			// What changes nothing is served, though browsers keep it from the page; but for what has the database read for an image.
			embedded := []servicetest.RequestOption{servicetest.Header("Sec-Fetch-Site", test.site), servicetest.Origin(test.origin), servicetest.Cookies("token=" + alice.Token)}
			window := append(embedded, servicetest.Header("Sec-Fetch-Mode", "navigate"))
			for _, path := range []string{servicetest.Plaza, servicetest.Plaza + "?wait=1", "/api/event/%70laza", "/sessions", "/events", "/events/edit?id=" + id, "/events/nothing"} {
				refused := !passes && (test.site == "cross-site" || test.site == "same-site")
				if res := s.Client().Get(path, embedded...); refused {
					res.IsError(403, "cross_origin").SetsNoCookie()
				} else if res.Status == 403 {
					t.Errorf("%s: %d %s", path, res.Status, res.Body)
				}
				if res := s.Client().Get(path, window...); res.Status == 403 {
					t.Errorf("%s in a window: %d %s", path, res.Status, res.Body)
				}
			}
			for _, path := range []string{"/docs", "/openapi.json", "/sign-in/page.css"} {
				s.Client().Get(path, embedded...).Has(200)
			}
		})
	}

	// Refused refreshes have spent nothing.
	cookies := servicetest.Cookies("token=" + s.Expired(alice.UserID) + "; refreshToken=" + alice.RefreshToken)
	for _, path := range []string{servicetest.SessionPath, servicetest.RefreshPath, "/api/auth/%73ession", "/api/auth/%72efresh", "/api/%61uth/refresh", "/%61pi/auth/refresh"} {
		s.Client().Get(path, cookies, servicetest.Header("Sec-Fetch-Site", "cross-site")).IsError(403, "cross_origin").SetsNoCookie()
		s.Client().Get(path, cookies, servicetest.Origin("https://evil.example")).IsError(403, "cross_origin").SetsNoCookie()
	}
	s.Client().Get(servicetest.RefreshPath, cookies).Is(200, servicetest.Success)
}

// What a browser fetches ahead of the user must not spend the token, wherever it comes from.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	s := servicetest.ForPages(t)
	alice := s.SignIn("alice")
	for _, purpose := range []string{"prefetch", "prefetch;prerender", "prefetch;anonymous-client-ip", "prerender"} {
		for _, with := range [][]servicetest.RequestOption{
			{}, {servicetest.Header("Sec-Fetch-Site", "same-origin")}, {servicetest.Header("Sec-Fetch-Site", "none")}, {servicetest.Origin(servicetest.App)},
		} {
			for _, path := range []string{servicetest.SessionPath, servicetest.RefreshPath} {
				alice.Get(path, append(with, servicetest.Header("Sec-Purpose", purpose))...).IsError(403, "cross_origin").SetsNoCookie()
			}
		}
		alice.Get(servicetest.Plaza, servicetest.Header("Sec-Purpose", purpose)).Is(200, servicetest.List())
	}
	alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
}

// Every response is checked for its security headers; here for the two sets of settings, on a few kinds of responses.
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]servicetest.Option{"development": nil, "production": {servicetest.Production}} {
		t.Run(name, func(t *testing.T) {
			s := servicetest.New(t, changes...)
			for _, path := range []string{servicetest.Plaza, servicetest.SessionPath, "/x", "/api/x", "/"} {
				for _, method := range []string{"GET", "OPTIONS", "PUT"} {
					res := s.Client().Do(method, path, "").HasHeader("Cross-Origin-Resource-Policy", "same-origin")
					for name := range res.Header {
						if strings.HasPrefix(name, "X-") && name != "X-Request-Id" && name != "X-Content-Type-Options" {
							t.Errorf("%s %s: header %s", method, path, name)
						}
					}
				}
			}
		})
	}
}

// What a client forwards or overrides has no effect.
func TestClientHeadersHaveNoEffect(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.Docs = true })
	alice := s.SignIn("alice")
	alice.Create("plaza", "a", servicetest.When)
	alice.Create("plaza", "b", servicetest.When)
	forwarded := func(r *http.Request) {
		for name, value := range map[string]string{
			"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-Prefix": "/evil", "Forwarded": "host=evil.example",
			"X-Original-URL": "/api/auth/refresh", "X-Rewrite-URL": "/api/auth/refresh", "X-HTTP-Method-Override": "DELETE", "X-Forwarded-For": "192.0.2.77",
		} {
			r.Header.Set(name, value)
		}
	}
	servicetest.Contains(t, alice.Get(servicetest.Plaza+"?limit=1", forwarded).Header.Get("Link"), "<"+s.URL+"/api/event/plaza?")
	alice.Get("/", forwarded).Is(303, "").HasHeader("Location", "/docs")
	alice.Post("/sign-out", "", forwarded, servicetest.Header("Accept", "text/html")).HasHeader("Location", "/sign-in")
	servicetest.Lacks(t, s.Log.String(), "192.0.2.77")
}
