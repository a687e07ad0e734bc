package sessions

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

func TestSignIn(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		c := s.Client()
		page := c.Get("/sign-in").HasHeader("Content-Type", "text/html; charset=utf-8").HasHeader("Cache-Control", "no-store").SetsNoCookie()
		if page.Status != 200 || !strings.Contains(page.Body, `name="username"`) {
			t.Fatalf("%d %s", page.Status, page.Body)
		}
		c.Submit("/sign-in", "username=alice").Is(303, "").HasHeader("Location", "/docs").HasHeader("Cache-Control", "no-store")
		c.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated).HasHeader("Session-User", "alice")
		c.Get(servicetest.Plaza).Is(200, servicetest.List())
		c.Get(servicetest.RefreshPath).Is(200, servicetest.Success)

		// The same name is the same user, whose earlier session ends.
		again := s.Client()
		again.Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, "")
		if n := s.Database.Count("users"); n != 1 {
			t.Errorf("%d users", n)
		}
		c.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
		again.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		// Names are exact.
		s.Client().Post("/sign-in", "username=Alice", servicetest.AsForm).Is(303, "")
		s.Client().Post("/sign-in", "username=alice+", servicetest.AsForm).Is(303, "")
		if n := s.Database.Count("users"); n != 3 {
			t.Errorf("%d users", n)
		}
	})
}

func TestSignInUsernames(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for _, name := range []string{"a", strings.Repeat("x", 100), strings.Repeat("😀", 100), " a", "e\u0301", "<script>alert(1)</script>", "\u200b", "' OR 1=1 --", "a;b=c,d"} {
			c := s.Client()
			c.Post("/sign-in", url.Values{"username": {name}}.Encode(), servicetest.AsForm).Is(303, "")
			if got, _ := url.PathUnescape(c.Get(servicetest.SessionPath).Header.Get("Session-User")); got != name {
				t.Errorf("signed in %q as %q", name, got)
			}
			if page := c.Get("/sign-in"); strings.Contains(page.Body, "<script") {
				t.Errorf("a name became a script: %s", page.Body)
			}
		}
		before := s.Database.Count("users")
		for _, body := range []string{
			"", "username=", "username=%20%E2%80%83", "username=a%00", "username=a%0Ab", "username=%7F", "username=%C2%85", "username=%ff", "username=" + strings.Repeat("x", 101),
			"username=" + strings.Repeat("%F0%9F%98%80", 101), "name=alice",
		} {
			res := s.Client().Post("/sign-in", body, servicetest.AsForm).SetsNoCookie()
			if res.Status != 400 || !strings.Contains(res.Body, `role="alert"`) {
				t.Errorf("%s: %d %s", body, res.Status, res.Body)
			}
		}
		s.Client().Post("/sign-in?username=mallory", "", servicetest.AsForm).SetsNoCookie() // a link signs nobody in
		s.Client().Get("/sign-in?username=mallory").SetsNoCookie()
		if res := s.Client().Post("/sign-in", "username="+strings.Repeat("x", 10<<10), servicetest.AsForm); res.Status != 400 && res.Status != 413 {
			t.Errorf("10 KiB: %d", res.Status)
		}
		if n := s.Database.Count("users"); n != before {
			t.Errorf("%d users made", n-before)
		}
	})
}

// After signing in nobody is led away from here.
func TestSignInReturnTo(t *testing.T) {
	t.Parallel()
	base := func(o *servicetest.Options) { o.BaseURL, _ = url.Parse("https://example.org/base") }
	for _, test := range []struct {
		name, prefix string
		s            *servicetest.Service
	}{{"at the root", "", servicetest.New(t)}, {"below a path", "/base", servicetest.New(t, base)}} {
		test.s.Run(t, test.name, func(t *testing.T) {
			kept := []string{"/sign-in", "/api/event/a%2Fb?limit=1&from=2030-01-01T00:00:00Z", "/docs#/events"}
			for i, to := range append(kept, "", "//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "/\n/evil.example", "\t//evil.example", " //evil.example",
				"https://evil.example", "https:evil.example", "http:/evil.example", "javascript:alert(1)", "data:text/html,x", "evil.example", "@evil.example", ".evil.example", "?x",
				`"><script>alert(1)</script>`, test.prefix+"/x\r\nSet-Cookie: a=b", test.prefix+"/%zz") {
				location := test.prefix + "/docs"
				if i < len(kept) {
					to = test.prefix + to
					location = to
				}
				test.s.Run(t, fmt.Sprintf("%q", to), func(t *testing.T) {
					form := url.Values{"username": {"alice"}, "return_to": {to}}.Encode()
					test.s.Client().Post("/sign-in", form, servicetest.AsForm).Is(303, "").HasHeader("Location", location)
					// The page hands on what it was called with; a template must not let it out of its attribute.
					page := test.s.Client().Get("/sign-in?return_to=" + url.QueryEscape(to))
					if page.Status != 200 || strings.Contains(page.Body, "<script") {
						t.Errorf("the page: %d %s", page.Status, page.Body)
					}
				})
			}
		})
	}
	// Below a path another path of the same host is somebody else's.
	s := servicetest.New(t, base)
	for _, to := range []string{"/", "/docs", "/basement", "/base"} {
		s.Client().Post("/sign-in", url.Values{"username": {"a"}, "return_to": {to}}.Encode(), servicetest.AsForm).Is(303, "").HasHeader("Location", "/base/docs")
	}
}

func TestProductionHasNoSignIn(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Production, func(o *servicetest.Options) { o.Docs = true })
	s.Client().Get("/sign-in").IsError(404, "not_found")
	s.Client().Post("/sign-in", "username=alice", servicetest.AsForm).IsError(404, "not_found").SetsNoCookie()
	if n := s.Database.Count("users"); n != 0 {
		t.Errorf("%d users", n)
	}
	if page := s.Client().Get("/docs"); strings.Contains(page.Body, "/sign-in?") {
		t.Error("the docs lead to a page that is not there")
	}
}

func TestSignOut(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for kind, revokes := range map[string]bool{
			"both cookies": true, "the refresh token": true, "the JWT": true, "an expired JWT": true, "an expired JWT and an unknown refresh token": true,
			"an expired JWT and garbage": true, "JWTs that differ": true, "a JWT without a session": false, "an expired JWT without a session": false,
			"a JWT of another user with the session": false, "none": false, "a JWT of another key": false, "an expired JWT of another key": false,
		} {
			s.Run(t, kind, func(t *testing.T) {
				alice, bob := s.SignIn("alice"), s.SignIn("bob")
				res := s.Client().Post("/sign-out", "", alice.Kind(kind)).Is(204, "").HasHeader("Cache-Control", "no-store")
				for _, name := range []string{"token", "refreshToken"} {
					if cookie := res.Cookie(name); cookie.Value != "" || cookie.MaxAge != -1 {
						t.Error(cookie.Raw)
					}
				}
				if revoked := alice.Get(servicetest.RefreshPath).Status == 400; revoked != revokes {
					t.Errorf("revoked %v", revoked)
				}
				bob.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
			})
		}
	})
}

// Signing out everywhere needs the proof of a live session. Without it, it is an ordinary sign-out.
func TestSignOutEverywhere(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for kind, ends := range map[string]struct{ own, others bool }{ // whether alice's session ends, and her other one
			"both cookies": {true, true}, "the refresh token": {true, true}, "the JWT": {true, true}, "an expired JWT": {true, false},
			"a spent refresh token": {true, false}, "both cookies, signed out": {true, false}, "a JWT without a session": {false, false}, "none": {false, false},
		} {
			s.Run(t, kind, func(t *testing.T) {
				for _, path := range []string{"/sign-out?everywhere=true", "/sign-out"} {
					alice, phone, bob := s.SignIn("alice"), s.SignIn("alice"), s.SignIn("bob")
					body, with := "", []servicetest.RequestOption{alice.Kind(kind)}
					if path == "/sign-out" {
						body, with = "everywhere=true", append(with, servicetest.AsForm)
					}
					s.Client().Post(path, body, with...).Is(204, "")
					for client, ended := range map[*servicetest.Client]bool{alice: ends.own, phone: ends.others, bob: false} {
						if got := client.Get(servicetest.Plaza).Status == 401; got != ended {
							t.Errorf("%s: %s's JWT has ended: %v, want %v", path, client.Session.Username, got, ended)
						}
						if got := client.Get(servicetest.RefreshPath).Status == 400; got != ended {
							t.Errorf("%s: %s's refresh token has ended: %v, want %v", path, client.Session.Username, got, ended)
						}
					}
				}
			})
		}
	}, func(o *servicetest.Options) { o.Sessions.PerUser = 2 })
}
