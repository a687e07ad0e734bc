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
		servicetest.Contains(t, page.Has(200).Body, `name="username"`)
		c.Submit("/sign-in", "username=alice").Is(303, "").HasHeader("Location", "/docs").HasHeader("Cache-Control", "no-store")
		c.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated).HasHeader("Session-User", "alice")
		c.Get(servicetest.Plaza).Is(200, servicetest.List())
		c.Get(servicetest.RefreshPath).Is(200, servicetest.Success)

		// The same name is the same user, whose earlier session ends.
		again := s.Client()
		again.Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, "")
		servicetest.Is(t, s.Database.Count("users"), 1, "users")
		c.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
		again.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		// Names are exact.
		s.Client().Post("/sign-in", "username=Alice", servicetest.AsForm).Is(303, "")
		s.Client().Post("/sign-in", "username=alice+", servicetest.AsForm).Is(303, "")
		servicetest.Is(t, s.Database.Count("users"), 3, "users")
	})
}

func TestSignInUsernames(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for _, name := range []string{"a", strings.Repeat("x", 100), strings.Repeat("😀", 100), " a", "e\u0301", "<script>alert(1)</script>", "\u200b", "' OR 1=1 --", "a;b=c,d"} {
			c := s.Client()
			c.Post("/sign-in", url.Values{"username": {name}}.Encode(), servicetest.AsForm).Is(303, "")
			got, _ := url.PathUnescape(c.Get(servicetest.SessionPath).Header.Get("Session-User"))
			servicetest.Is(t, got, name, "the name")
			servicetest.Lacks(t, c.Get("/sign-in").Body, "<script")
		}
		before := s.Database.Count("users")
		for _, body := range []string{
			"", "username=", "username=%20%E2%80%83", "username=a%00", "username=a%0Ab", "username=%7F", "username=%C2%85", "username=%ff", "username=" + strings.Repeat("x", 101),
			"username=" + strings.Repeat("%F0%9F%98%80", 101), "name=alice",
		} {
			s.Client().Post("/sign-in", body, servicetest.AsForm).SetsNoCookie().IsError(400, "validation_failed", "username")
		}
		s.Client().Post("/sign-in?username=mallory", "", servicetest.AsForm).SetsNoCookie() // a link signs nobody in
		s.Client().Get("/sign-in?username=mallory").SetsNoCookie()
		s.Client().Post("/sign-in", "username="+strings.Repeat("x", 10<<10), servicetest.AsForm).Has(400)
		servicetest.Is(t, s.Database.Count("users"), before, "users")
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
					servicetest.Lacks(t, page.Has(200).Body, "<script")
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
	servicetest.Is(t, s.Database.Count("users"), 0, "users")
	servicetest.Lacks(t, s.Client().Get("/docs").Has(200).Body, "/sign-in?")
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
				clearsCookies(t, res)
				servicetest.Is(t, alice.Get(servicetest.RefreshPath).Status == 400, revokes, "revoked")
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
						servicetest.Is(t, client.Get(servicetest.Plaza).Status == 401, ended, "%s: %s's JWT has ended", path, client.Session.Username)
						servicetest.Is(t, client.Get(servicetest.RefreshPath).Status == 400, ended, "%s: %s's refresh token has ended", path, client.Session.Username)
					}
				}
			})
		}
	}, upTo(2))
}

// However many refresh tokens somebody sends, who need be nobody, they are looked up in one statement, and not at all where tokens
// that differ make the sender nobody anyway.
func TestManyRefreshTokensCostNoMore(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		calls := func() (n float64) {
			pools := []string{"postgres"}
			if s.Database.Dialect == "sqlite" {
				pools = []string{"sqlite_read", "sqlite_write"}
			}
			for _, pool := range pools {
				n += servicetest.Metric(t, s, `worldevents_database_duration_seconds_count{pool="`+pool+`"}`)
			}
			return n
		}
		for _, test := range []struct {
			method, path string
			one, many    float64 // calls to the database
		}{
			{"GET", "/sessions", 1, 0},
			{"POST", "/sessions/end", 1, 0},
			{"POST", "/sessions/end-others", 1, 0},
			{"GET", "/events", 1, 0},
			{"POST", "/sign-out", 1, 1},
			{"POST", "/sign-out?everywhere=true", 2, 2},
		} {
			for n, want := range map[int]float64{1: test.one, 16: test.many} {
				var cookies []string
				for i := range n {
					cookies = append(cookies, fmt.Sprintf("refreshToken=%0128x", i))
				}
				before := calls()
				s.Client().Do(test.method, test.path, "", servicetest.AsForm, servicetest.Cookies(strings.Join(cookies, "; ")))
				servicetest.Is(t, calls()-before, want, "%s %s with %d refresh tokens: calls to the database", test.method, test.path, n)
			}
		}
	})
}

// Where a part of a sign-out is done and the rest is refused, nobody is told that nothing has happened. The browser keeps its
// cookies, and the next try does the rest.
func TestSignOutEverywhereHalfway(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	alice := s.SignIn("alice")
	s.Database.Exec(`
		CREATE SEQUENCE updates;
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('updates') IN (2, 3, 4, 5) THEN RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER refuse AFTER UPDATE ON sessions FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
	alice.Post("/sign-out?everywhere=true", "").IsError(500, "internal").SetsNoCookie()
	servicetest.Is(t, s.Database.Count("sessions WHERE revoked_at IS NOT NULL"), 1, "revoked sessions")
	alice.Post("/sign-out?everywhere=true", "").Is(204, "")
}
