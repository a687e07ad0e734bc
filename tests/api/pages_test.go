package api

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// asksForHTML is what a window shows.
var asksForHTML = servicetest.Header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")

// The pages and their forms work wherever the service is, need no more than their policy allows, and lead nowhere that is not there.
func TestPagesEverywhere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		changes      []servicetest.Option
		prefix, left string // left is where a sign-out leads
	}{
		{"development", nil, "", "/sign-in"},
		{"development below a path", []servicetest.Option{belowPath}, "/base", "/base/sign-in"},
		{"production", []servicetest.Option{servicetest.Production}, "", "/docs"},
		{"production below a path", []servicetest.Option{servicetest.Production, belowPath}, "/base", "/base/docs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := servicetest.New(t, append(test.changes, withDocs, func(o *servicetest.Options) { o.Sessions.PerUser = 3 })...)
			s.AddUser("alice")
			alice, nobody := s.SignIn("alice"), s.Client()
			id, old := alice.Create("plaza", "a", servicetest.When), alice.Create("plaza", "old", "2020-01-01T00:00:00Z")
			nobody.Get("/").Is(303, "").HasHeader("Location", test.prefix+"/docs")
			paths := []string{"/docs", "/sessions", "/events", "/events?world=plaza&list=made", "/events?past=true", "/events/edit?id=" + id, "/events/cancel?id=" + id + "&past=true"}
			if s.Options.Development {
				paths = append(paths, "/sign-in")
			}
			for _, path := range paths {
				page := alice.Get(path)
				policy := "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
				switch path {
				case "/docs": // see TestDocs
				case "/sign-in":
					page.HasHeader("Content-Security-Policy", policy)
				default:
					page.HasHeader("Content-Security-Policy", policy+"; script-src 'self'")
				}
				for _, link := range regexp.MustCompile(`(?:href|action|src)="([^"]*)"`).FindAllStringSubmatch(page.Body, -1) {
					home := test.prefix != "" && link[1] == "https://example.org/"
					if (!strings.HasPrefix(link[1], test.prefix+"/") || strings.HasPrefix(link[1], "//")) && !strings.HasPrefix(link[1], "#") && !home {
						t.Errorf("%s leads to %q", path, link[1])
					}
				}
				servicetest.Is(t, regexp.MustCompile(`(?i)<style|\sstyle=|<script>`).FindString(page.Has(200).Body), "", "what the policy does not allow")
			}
			submit := func(path, form, location string) {
				t.Helper()
				alice.Submit(path, form).Is(303, "").HasHeader("Location", location)
			}
			form := alice.Get("/events/edit?world=plaza&past=true&id=" + old).Body
			servicetest.Contains(t, form, `action="`+test.prefix+`/events/edit?past=true&amp;world=plaza"`)
			shown := regexp.MustCompile(`name="shown" value="([^"]+)"`).FindStringSubmatch(form)[1]
			submit("/events/edit?past=true&world=plaza", url.Values{"id": {old}, "shown": {shown}, "name": {"b"}, "description": {""}, "scheduledAt": {"2020-01-01T00:00"}}.Encode(),
				test.prefix+"/events?past=true&world=plaza#event-"+old)
			submit("/events/cancel", "id="+old, test.prefix+"/events")
			submit("/sessions/end-others", "", test.prefix+"/sessions")
			submit("/sessions/end", "id="+s.SignIn("alice").Session.SessionID, test.prefix+"/sessions")
			submit("/sessions/end", "id="+alice.Session.SessionID, test.left)
			for _, with := range [][]servicetest.RequestOption{{servicetest.Navigates}, {servicetest.Navigates, asksForHTML}, {asksForHTML}} {
				nobody.Post("/sign-out", "", with...).Is(303, "").HasHeader("Location", test.left)
			}
			script := servicetest.Header("Sec-Fetch-Mode", "cors")
			for _, with := range [][]servicetest.RequestOption{{}, {servicetest.Header("Accept", "*/*")}, {script}, {script, asksForHTML}} {
				nobody.Post("/sign-out", "", with...).Is(204, "").HasHeader("Location", "")
			}
			for path, returnTo := range map[string]string{
				"/sessions": "/sessions", "/events": "/events", "/events?world=a%26b%22%F0%9F%8E%89": "/events?world=a%26b%22%F0%9F%8E%89",
				"/events/edit?past=true&world=w&id=" + id: "/events?past=true&world=w",
			} {
				link := `href="` + test.prefix + `/sign-in?return_to=` + strings.ToLower(url.QueryEscape(test.prefix+returnTo)) + `"`
				page := strings.ToLower(strings.ReplaceAll(nobody.Get(path).Body, `/sessions"`, `%2fsessions"`)) // a constant of the page is not escaped
				if strings.Contains(page, link) != s.Options.Development {
					t.Errorf("%s: no %s in %s", path, link, page)
				}
			}
			nobody.Get("/sessions", servicetest.Header("Sec-Purpose", "prefetch")).SetsNoCookie()
			for _, path := range []string{"/events", "/sessions"} {
				nobody.Do("HEAD", path, "").Is(405, "").HasHeader("Allow", "OPTIONS, GET")
				alice.Post(path, "", asksForHTML).IsError(405, "method_not_allowed").SetsNoCookie()
			}
			for _, path := range []string{"/sessions/end", "/sessions/end-others", "/sign-out"} {
				alice.Get(path).IsError(405, "method_not_allowed").HasHeader("Allow", "OPTIONS, POST").SetsNoCookie()
			}
			alice.Get("/events/leave").IsError(404, "not_found")
		})
	}
}

// Storage that is down is no sign-out: nothing is cleared, and people get a page.
func TestPagesWithStorageDown(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		id := "id=" + alice.Create("plaza", "a", servicetest.When)
		s.Store.Close()
		for path, form := range map[string]string{
			"/events": "", "/sessions": "", "/events/edit": id + "&shown=x&name=n&description=&scheduledAt=2030-01-01T00:00", "/events/cancel": id, "/events/leave": id,
			"/sessions/end": "id=" + alice.Session.SessionID, "/sessions/end-others": "", "/sign-out": "",
		} {
			method := map[bool]string{true: "GET", false: "POST"}[path == "/events" || path == "/sessions"]
			alice.Do(method, path, form, servicetest.AsForm).IsError(500, "internal").SetsNoCookie()
			res := alice.Do(method, path, form, servicetest.AsForm, servicetest.Navigates, asksForHTML).SetsNoCookie().HasHeader("Content-Type", "text/html; charset=utf-8")
			servicetest.Lacks(t, res.Has(500, `role="alert"`, res.Header.Get("X-Request-Id")).Body, "Nobody is signed in")
		}
		s.Client().Post("/sign-in", "username=alice", servicetest.AsForm).IsError(500, "internal").SetsNoCookie()
		s.Client().Post("/sign-out", "", servicetest.Cookies("token="+s.ExpiredSession(alice.Session))).IsError(500, "internal").SetsNoCookie()
		s.Client().Post("/sign-out", "").Is(204, "") // nothing to revoke
	})
}
