package api

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// eventCalls are the four operations that need a session, with what makes them succeed.
var eventCalls = []struct{ name, method, path, body string }{
	{"create event", "POST", servicetest.Plaza, servicetest.EventBody},
	{"list events", "GET", servicetest.Plaza, ""},
	{"join event", "POST", "/api/event/join/{id}", ""},
	{"leave event", "DELETE", "/api/event/{id}", ""},
}

func TestUnauthorized(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	id := alice.Create("plaza", "n", servicetest.When)
	expired := s.Expired(alice.Session.UserID)
	for _, call := range eventCalls {
		path := strings.ReplaceAll(call.path, "{id}", id)
		for _, test := range []struct{ name, cookies, code string }{
			{"no cookie", "", "no_token"},
			{"an empty token", "token=", "no_token"},
			{"a refresh token alone", "refreshToken=" + alice.Session.RefreshToken, "no_token"},
			{"not a JWT", "token=x", "invalid_token"},
			{"a refresh token in place of the JWT", "token=" + alice.Session.RefreshToken, "invalid_token"},
			{"forged and expired", "token=" + servicetest.Sign([]byte("x"), `{"alg":"HS256"}`, s.Claims(alice.Session.UserID, -time.Hour).JSON()), "invalid_token"},
			{"expired", "token=" + expired, "token_expired"},
			// requireAuth never refreshes by itself.
			{"expired, with a refresh token", "token=" + expired + "; refreshToken=" + alice.Session.RefreshToken, "token_expired"},
		} {
			s.Run(t, call.name+": "+test.name, func(t *testing.T) {
				s.Client().Do(call.method, path, call.body, servicetest.Cookies(test.cookies)).IsError(401, test.code).SetsNoCookie()
			})
		}
		s.Run(t, call.name+": only the cookie counts", func(t *testing.T) {
			s.Client().Do(call.method, path+"?token="+alice.Session.Token, call.body,
				servicetest.Header("Authorization", "Bearer "+alice.Session.Token)).IsError(401, "no_token")
		})
		s.Run(t, call.name+": before anything else is looked at", func(t *testing.T) {
			s.Client().Do(call.method, strings.NewReplacer("plaza", "%00", "{id}", "%00").Replace(call.path), "[").IsError(401, "no_token")
		})
	}
	alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success) // nothing was spent
}

// A user who is gone is gone at once, but for the session endpoint, which does not look.
func TestDeletedUser(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := bob.Create("plaza", "n", servicetest.When)
		joined := alice.Create("plaza", "mine", servicetest.When)
		s.Database.Exec("DELETE FROM users WHERE username = ?", "alice")
		for _, path := range []string{"join/" + id, "join/" + joined, "join/unknown", "join/01980000-0000-7000-8000-000000000001"} {
			alice.Post("/api/event/"+path, "").IsError(401, "invalid_token")
			alice.Delete(strings.Replace("/api/event/"+path, "join/", "", 1)).IsError(401, "invalid_token")
		}
		alice.Get(servicetest.Plaza).IsError(401, "invalid_token")
		alice.Get("/api/event/empty?limit=1").IsError(401, "invalid_token")
		alice.Post(servicetest.Plaza, servicetest.EventBody).IsError(401, "invalid_token")
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated)
		alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		// Nor does a signature make a user of a subject that is none.
		for _, sub := range []string{"alice", "7", "' OR 1=1 --", strings.ToUpper(bob.Session.UserID), "00000000-0000-0000-0000-000000000000"} {
			cookie := servicetest.Cookies("token=" + s.JWT(s.Claims(sub, time.Minute)))
			for _, call := range eventCalls {
				s.Client().Do(call.method, strings.ReplaceAll(call.path, "{id}", id), call.body, cookie).IsError(401, "invalid_token")
			}
		}
		servicetest.Is(t, s.Database.Count("rsvps"), 1, "RSVPs")
	})
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	for _, path := range []string{
		"/x", "/api", "/api/", "/api/auth", "/api/auth/", "/api/auth/session/", "/api/auth/login", "/api/Auth/session", "/api/auth%2Fsession", "/api//auth/session",
		"/api/event", "/api/event/", "/api/event/a/b", "/api/event/a/", "/api/event/join/", "/api/event/join/a/b", "/api/event/join/a/", "/api/event//", "/api/event//a",
		"/api/events/plaza", "/v1/api/event/x", "/metrics", "/livez", "/readyz", "/debug/pprof/", "/.env", "/api/../etc/passwd", "/api/event/../../x",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "PATCH"} {
			s.Client().Do(method, path, "").IsError(404, "not_found")
		}
	}
	operations := map[string][]string{ // path: the methods that it has
		servicetest.SessionPath: {"GET"}, servicetest.RefreshPath: {"GET"}, servicetest.Plaza: {"DELETE", "GET", "POST"}, "/api/event/join/x": {"POST"}, "/api/event/join": {"DELETE", "GET", "POST"},
		"/api/event/%61%2Fb": {"DELETE", "GET", "POST"}, "/api/event/join/%61%2Fb": {"POST"},
	}
	for path, methods := range operations {
		s.Run(t, path, func(t *testing.T) {
			for _, method := range []string{"GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "TRACE", "PROPFIND", "get", "OPTIONS"} {
				if slices.Contains(methods, method) {
					continue
				}
				res := s.Client().Do(method, path, "")
				switch method {
				case "OPTIONS":
					res.Is(204, "")
				case "HEAD":
					res.Is(405, "")
				default:
					res.IsError(405, "method_not_allowed")
				}
				allowed := strings.Split(strings.TrimPrefix(res.Header.Get("Allow"), "OPTIONS, "), ", ")
				slices.Sort(allowed)
				servicetest.Is(t, allowed, methods, "Allow for %s", method)
			}
		})
	}
}

// A HEAD must not spend a token.
func TestHeadSpendsNothing(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	for _, method := range []string{"HEAD", "OPTIONS", "POST"} {
		alice.Do(method, servicetest.RefreshPath, "").SetsNoCookie()
		s.Client().Do(method, servicetest.SessionPath, "", servicetest.Cookies("token="+s.Expired(alice.Session.UserID)+"; refreshToken="+alice.Session.RefreshToken)).SetsNoCookie()
	}
	alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
}

// Dot segments never climb. A world that is one is refused, since no browser could ask for it.
func TestDotSegments(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	token := s.SignIn("alice").Session.Token
	for path, status := range map[string]string{
		"/api/event/%2E%2E": "400", "/api/event/%2e": "400", "/api/event/..%2F..%2Flivez": "200",
		"/api/event/../auth/session": "404", "/api/event/x/../plaza": "404", "/api/event/%2e%2e/plaza": "404", "//api/event/plaza": "404",
	} {
		s.Run(t, path, func(t *testing.T) {
			got := s.Raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nCookie: token=" + token + "\r\nConnection: close\r\n\r\n")
			servicetest.Contains(t, got, "HTTP/1.1 "+status+" ")
		})
	}
}

// The request id is always made here.
func TestRequestId(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	seen := make(map[string]bool)
	for range 3 {
		res := s.Client().Get(servicetest.Plaza, servicetest.Header("X-Request-Id", "mine\" level=ERROR"), servicetest.Header("Traceparent", "00-aa-bb-01"))
		id := res.IsError(401, "no_token").Error().RequestID
		if seen[id] || id == "mine" {
			t.Errorf("request id %s", id)
		}
		seen[id] = true
		servicetest.Eventually(t, "the request is in the log under its id", func() bool { return strings.Contains(s.Log.String(), id) })
	}
	servicetest.Lacks(t, s.Log.String(), "mine")
}

// A 500 says what was being done and the class of the cause, and nothing of what is inside.
func TestInternalErrors(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "n", servicetest.When)
		s.Store.Close()
		for _, call := range eventCalls {
			s.Run(t, call.name, func(t *testing.T) {
				res := alice.Do(call.method, strings.ReplaceAll(call.path, "{id}", id), call.body)
				detail := res.IsError(500, "internal").SetsNoCookie().Error().Detail
				servicetest.Contains(t, detail, call.name+": ")
				inside := regexp.MustCompile(`(?i)sql|select|insert|pgx|dial|127\.0\.0\.1|\.go|/tmp|goroutine|alice`).FindString(res.Body)
				servicetest.Is(t, inside, "", "what it says of the inside: %s", res.Body)
				servicetest.Eventually(t, "the cause is in the log", func() bool {
					return strings.Contains(s.Log.String(), res.Error().RequestID)
				})
			})
		}
	})
}

// A database that refuses connections, or is silent, was sent nothing: clients may try again.
func TestDatabaseUnreachable(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	alice := servicetest.Start(t, db).SignIn("alice") // with patience: the time of the other is for the fault
	alice.Create("plaza", "n", servicetest.When)
	proxy, through := db.ThroughProxy()
	db.URL = through
	s := servicetest.Start(t, db, func(o *servicetest.Options) { o.DBTimeout = 2 * time.Second })
	alice = alice.On(s)
	servicetest.Eventually(t, "there is a connection", func() bool { return alice.Get(servicetest.Plaza).Status == 200 })
	proxy.Down()
	servicetest.Eventually(t, "no connection is left that was made before", func() bool {
		res := alice.Get(servicetest.Plaza)
		if res.Status == 500 { // which had been sent something
			servicetest.Is(t, res.Error().Detail, "list events: database unavailable", "detail")
		}
		return res.Status == 503
	})
	unreachable := func(res *servicetest.Response) {
		t.Helper()
		res.IsError(503, "overloaded").HasHeader("Retry-After", "1").SetsNoCookie()
	}
	for range 2 {
		var wait sync.WaitGroup // each waits as long as DB_TIMEOUT for a database that is silent
		for _, call := range eventCalls {
			path := strings.ReplaceAll(call.path, "{id}", "01980000-0000-7000-8000-000000000001")
			wait.Go(func() { unreachable(alice.Do(call.method, path, call.body)) })
		}
		wait.Go(func() { unreachable(alice.Get(servicetest.RefreshPath)) })
		wait.Go(func() {
			unreachable(s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token="+s.Expired(alice.Session.UserID)+"; refreshToken="+alice.Session.RefreshToken)))
		})
		wait.Go(func() { unreachable(alice.Do("POST", "/sign-out", "")) })
		wait.Wait()
		proxy.Up()
		proxy.Silence()
	}
	if n := servicetest.Metric(t, s, `worldevents_database_errors_total{class="unavailable",pool="postgres"}`); n < 10 {
		t.Errorf("%v calls are counted", n)
	}
	proxy.Up()
	servicetest.Eventually(t, "the service recovers by itself", func() bool { return alice.Get(servicetest.Plaza).Status == 200 })
	alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success) // the token was not spent
}

// A panic is a 500 like any other, and the process lives.
func TestPanic(t *testing.T) {
	t.Parallel()
	var panics bool
	s := servicetest.New(t)
	broken := s.NewInstance(func(o *servicetest.Options) {
		now := o.Now
		o.Now = func() time.Time {
			if panics {
				panic("secret words")
			}
			return now()
		}
	})
	alice := broken.SignIn("alice")
	panics = true
	res := alice.Get(servicetest.Plaza).IsError(500, "internal")
	servicetest.Lacks(t, res.Body, "secret words")
	panics = false
	alice.Get(servicetest.Plaza).Is(200, servicetest.List())
}
