package api

import (
	"net/url"
	"testing"

	"worldevents/tests/servicetest"
)

// People who open an address that is none, or cannot be served now, get a page with the status and the number of the request. Below /api,
// and for whoever does not ask for HTML, errors are JSON.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	under := func(o *servicetest.Options) { o.BaseURL, _ = url.Parse("https://example.org/base") }
	s, crowded := servicetest.New(t, withDocs, under), servicetest.New(t, withDocs, func(o *servicetest.Options) { o.MaxInFlight = 0 })
	alice, nobody := s.SignIn("alice"), s.Client()
	const event = "/api/event/join/019f0000-0000-7000-8000-000000000000"
	for _, test := range []struct {
		from         *servicetest.Client
		method, path string
		status       int
		code         string
		page         string // what the page has, "" if there is none
	}{
		{nobody, "GET", "/nothing", 404, "not_found", "There is no such page"},
		{alice, "GET", "/nothing", 404, "not_found", `href="/base/events"`},
		{nobody, "GET", "/docs/nothing", 404, "not_found", "There is no such page"},
		{nobody, "GET", "/apis", 404, "not_found", "There is no such page"},
		{nobody, "GET", "/sign-in/nothing", 404, "not_found", "There is no such page"},
		{alice, "GET", "/events/nothing", 404, "not_found", "Show the events"},
		{alice, "GET", "/events/019f0000-0000-7000-8000-000000000000.ics", 404, "event_not_found", "Show the events"},
		{alice, "GET", "/sign-out", 405, "method_not_allowed", `<form method="post" action="/base/sign-out"><button class="primary">`},
		{nobody, "GET", "/sign-out", 405, "method_not_allowed", "Only forms are sent to this address"},
		{crowded.Client(), "GET", "/docs", 503, "overloaded", "Overloaded."},
		{crowded.Client(), "GET", "/nothing", 503, "overloaded", "Overloaded."},
		{nobody, "POST", "/nothing", 404, "not_found", ""},
		{nobody, "DELETE", "/docs", 405, "method_not_allowed", ""},
		{nobody, "GET", "/api", 404, "not_found", ""},
		{nobody, "GET", "/api/", 404, "not_found", ""},
		{nobody, "GET", "/api/nothing", 404, "not_found", ""},
		{nobody, "GET", "/%61pi/nothing", 404, "not_found", ""},
		{nobody, "GET", event, 405, "method_not_allowed", ""},
		{nobody, "GET", "/api/event/plaza", 401, "no_token", ""},
		{crowded.Client(), "GET", "/api/event/plaza", 503, "overloaded", ""},
	} {
		for accept, isPage := range map[string]bool{browser: true, "text/html": true, "*/*": false, "application/json": false, "image/avif,image/webp,*/*;q=0.8": false, "": false} {
			res := test.from.Do(test.method, test.path, "", servicetest.Header("Accept", accept))
			if !isPage || test.page == "" {
				res.IsError(test.status, test.code)
				continue
			}
			res.HasHeader("Content-Type", "text/html; charset=utf-8").HasHeader("Cache-Control", "no-store").SetsNoCookie()
			res.Has(test.status, test.page, `<code id="request">`+res.Header.Get("X-Request-Id")+"</code>")
			servicetest.Is(t, res.Header.Get("Retry-After") == "1", test.status == 503, "%s has Retry-After", test.path)
		}
	}
	nobody.Do("HEAD", "/nothing", "", servicetest.Header("Accept", browser)).Is(404, "").HasHeader("Content-Type", "text/html; charset=utf-8")
}
