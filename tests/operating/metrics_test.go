package operating

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

// monitoring is the page that lists operations and metrics.
const monitoring = "docs/operate/monitoring.md"

// responses is the name of a counter of responses.
func responses(operation string, status int, code string) string {
	return fmt.Sprintf(`worldevents_requests_total{code="%s",operation="%s",status="%d"}`, code, operation, status)
}

// counted is the value of a metric, 0 for one that is not there yet.
func counted(t *testing.T, s *servicetest.Service, name string) float64 {
	t.Helper()
	if !strings.Contains(servicetest.Metrics(t, s), "\n"+name+" ") {
		return 0
	}
	return servicetest.Metric(t, s, name)
}

// awaitCount waits until a metric has a value, which may come after the response.
func awaitCount(t *testing.T, s *servicetest.Service, name string, want float64) {
	t.Helper()
	servicetest.Eventually(t, fmt.Sprint(name, " ", want), func() bool { return counted(t, s, name) == want })
}

// everything turns on what has routes.
func everything(o *servicetest.Options) {
	o.Docs, o.AllowedOrigins, o.SecurityContacts = true, []string{"https://app.example"}, []string{"mailto:security@example.org"}
	o.PrivateKeys = []ed25519.PrivateKey{ed25519.NewKeyFromSeed(servicetest.Key[:ed25519.SeedSize])}
	o.OIDC = &server.OIDC{Issuer: "http://127.0.0.1:9", ClientID: "worldevents", Scopes: []string{"openid"}, UsernameClaim: "sub"} // nobody is there
}

// calls are requests of somebody without cookies, one at least for each operation, and what they are counted as.
var calls = []struct {
	method, path, operation string
	status                  int
	code                    string
}{
	{"GET", servicetest.SessionPath, "getSession", 400, "no_token"},
	{"GET", servicetest.RefreshPath, "refreshSession", 400, "no_refresh_token"},
	{"GET", servicetest.Plaza, "listEvents", 401, "no_token"},
	{"POST", servicetest.Plaza, "createEvent", 401, "no_token"},
	{"POST", "/api/event/join/x", "joinEvent", 401, "no_token"},
	{"DELETE", "/api/event/x", "leaveEvent", 401, "no_token"},
	{"GET", "/", "docs", 303, ""},
	{"GET", "/docs", "docs", 200, ""},
	{"HEAD", "/docs", "docs", 200, ""},
	{"GET", "/docs/docs.js", "assets", 200, ""},
	{"GET", "/sign-in/page.css", "assets", 200, ""},
	{"GET", "/.well-known/security.txt", "securityTxt", 200, ""},
	{"GET", "/.well-known/jwks.json", "keySet", 200, ""},
	{"GET", "/openapi.json", "contract", 200, ""},
	{"GET", "/openapi.yaml", "contract", 200, ""},
	{"GET", "/sign-in", "showSignIn", 200, ""},
	{"POST", "/sign-in", "signIn", 400, "validation_failed"},
	{"POST", "/sign-out", "signOut", 204, ""},
	{"GET", "/sign-in/provider", "beginSignIn", 502, "provider_failed"},
	{"GET", "/sign-in/callback", "finishSignIn", 400, "invalid_sign_in"},
	{"POST", "/sign-in/back-channel-logout", "backChannelLogout", 400, "invalid_logout_token"},
	{"GET", "/sessions", "showSessions", 200, ""},
	{"POST", "/sessions/end", "endSession", 401, "invalid_token"},
	{"POST", "/sessions/end-others", "endOtherSessions", 401, "invalid_token"},
	{"GET", "/sign-in/page.js", "assets", 200, ""},
	{"GET", "/events", "showEvents", 200, ""},
	{"GET", "/events/019f0000-0000-7000-8000-000000000000.ics", "downloadEvent", 401, "invalid_token"},
	{"GET", "/events/edit", "showEdit", 200, ""},
	{"POST", "/events/edit", "editEvent", 401, "invalid_token"},
	{"GET", "/events/cancel", "showCancel", 200, ""},
	{"POST", "/events/cancel", "cancelEvent", 401, "invalid_token"},
	{"POST", "/events/leave", "leaveOnPage", 401, "invalid_token"},
	{"GET", "/nothing-here", "notFound", 404, "not_found"},
	{"GET", servicetest.Plaza + "/x", "notFound", 404, "not_found"},
	{"POST", "/docs", "methodNotAllowed", 405, "method_not_allowed"},
	{"PUT", servicetest.Plaza, "methodNotAllowed", 405, "method_not_allowed"},
	{"OPTIONS", servicetest.Plaza, "options", 204, ""},
}

// A response is counted as the operation that was asked for, whether that has had its say or a limit has refused the
// request before.
func TestResponsesByOperation(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, s *servicetest.Service, status int, code string) {
		for _, call := range calls {
			s.Run(t, call.method+call.path, func(t *testing.T) {
				status, code := status, code
				if status == 0 {
					status, code = call.status, call.code
				}
				name := responses(call.operation, status, code)
				before := counted(t, s, name)
				s.Client().Do(call.method, call.path, "").Has(status)
				awaitCount(t, s, name, before+1)
			})
		}
	}
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		check(t, servicetest.New(t, everything), 0, "")
	})
	t.Run("rate limited", func(t *testing.T) {
		t.Parallel()
		s := servicetest.New(t, everything, func(o *servicetest.Options) { o.RateLimit = 1e-6 })
		s.Client().Get("/docs")
		check(t, s, 429, "rate_limited")
	})
	t.Run("overloaded", func(t *testing.T) {
		t.Parallel()
		check(t, servicetest.New(t, everything, func(o *servicetest.Options) { o.MaxInFlight = 0 }), 503, "overloaded")
	})
	t.Run("cross origin", func(t *testing.T) {
		t.Parallel()
		s := servicetest.New(t, everything)
		s.Client().Post(servicetest.Plaza, servicetest.EventBody, servicetest.Origin("https://evil.example")).IsError(403, "cross_origin")
		s.Client().Do("OPTIONS", servicetest.Plaza, "", servicetest.Origin("https://app.example"), servicetest.Header("Access-Control-Request-Method", "POST")).Is(204, "")
		awaitCount(t, s, responses("createEvent", 403, "cross_origin"), 1)
		awaitCount(t, s, responses("options", 204, ""), 1)
	})
}

// Errors of the service are counted from 0 on, for each operation: the first of them is an increase. No other operation is
// counted than those that are listed.
func TestErrorsAreCountedFromZero(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, everything)
	operations := make(map[string]bool)
	for _, call := range calls {
		operations[call.operation] = true
		servicetest.Metric(t, s, responses(call.operation, 500, "internal"))
		servicetest.Metric(t, s, responses(call.operation, 503, "overloaded"))
	}
	for _, match := range regexp.MustCompile(`(?m)^worldevents_requests_total\{.*operation="(\w*)"`).FindAllStringSubmatch(servicetest.Metrics(t, s), -1) {
		servicetest.True(t, operations[match[1]], "%q is an operation", match[1])
	}
	servicetest.Metric(t, s, responses("finishSignIn", 502, "provider_failed"))
	text := servicetest.Shipped(t, monitoring)
	for operation := range operations {
		servicetest.Contains(t, text, "`"+operation+"`")
	}
}

// A request that fails is counted with its code, also where the database is the cause.
func TestResponsesByCode(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+servicetest.RefreshToken(7))).Is(400, servicetest.InvalidRefresh)
		s.Client().Get(servicetest.SessionPath, servicetest.Cookies("token=x")).Is(400, servicetest.SessionInvalid)
		alice.Post("/api/event/join/"+servicetest.IDOf(1), "").IsError(404, "event_not_found")
		alice.Post(servicetest.Plaza, "{").IsError(400, "malformed_json")
		s.Store.Close()
		alice.Get(servicetest.Plaza)
		alice.Post("/sign-out", "")
		for _, name := range []string{
			responses("refreshSession", 400, "invalid_refresh_token"), responses("getSession", 400, "invalid_token"),
			responses("joinEvent", 404, "event_not_found"), responses("createEvent", 400, "malformed_json"),
			responses("listEvents", 500, "internal"), responses("signOut", 500, "internal"),
		} {
			awaitCount(t, s, name, 1)
		}
	})
}

// Sign-ins are counted by how they end.
func TestSignInsByOutcome(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		c := s.Client()
		c.Get("/sign-in")
		c.Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, "")
		c.Post("/sign-in", "username=%00", servicetest.AsForm)
		c.Post("/sign-in", "username=bob", servicetest.AsForm, func(r *http.Request) { r.Host = "evil.example" })
		c.Get("/sign-in/provider")
		c.Get("/sign-in/callback?state=x&code=y")
		s.Store.Close()
		c.Post("/sign-in", "username=alice", servicetest.AsForm)
		want := map[string]float64{
			`way="form",outcome="signed_in"`: 1, `way="form",outcome="refused"`: 2, `way="form",outcome="failed"`: 1,
			`way="provider",outcome="provider_failed"`: 1, `way="provider",outcome="refused"`: 1,
		}
		for _, way := range []string{"form", "provider"} {
			for _, outcome := range []string{"signed_in", "refused", "provider_failed", "overloaded", "failed"} {
				name := fmt.Sprintf(`worldevents_sign_ins_total{outcome="%s",way="%s"}`, outcome, way)
				n := want[fmt.Sprintf(`way="%s",outcome="%s"`, way, outcome)]
				servicetest.Eventually(t, fmt.Sprint(name, n), func() bool { return servicetest.Metric(t, s, name) == n })
			}
		}
	}, everything)
}

// Lists are counted by how they came about.
func TestListsByHow(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		got := make(map[string]float64)
		counts := func(want map[string]float64) {
			t.Helper()
			for _, how := range []string{"read", "shared", "cached", "unchanged_read", "unchanged_cached"} {
				got[how] += want[how]
				servicetest.Is(t, servicetest.Metric(t, s, fmt.Sprintf(`worldevents_list_responses_total{how="%s"}`, how)), got[how], "%s", how)
			}
		}
		alice, _, tag := servicetest.WatcherOf(s)
		counts(map[string]float64{"read": 1})
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		counts(map[string]float64{"unchanged_cached": 1})
		alice.Get(servicetest.Plaza).HasHeader("ETag", tag)
		counts(map[string]float64{"cached": 1})
		s.SignIn("bob").Create("plaza", "a", servicetest.When)
		s.Database.Exec("DELETE FROM events WHERE world_id = 'plaza' AND creator_id = (SELECT id FROM users WHERE username = 'bob')")
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		counts(map[string]float64{"unchanged_read": 1})
		alice.Get(servicetest.Plaza+"?limit=0").IsError(400, "validation_failed", "limit")
		s.Client().Get(servicetest.Plaza).IsError(401, "no_token")
		counts(nil)

		const repeated = 20
		for range repeated {
			alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
		}
		counts(map[string]float64{"unchanged_cached": repeated})

		news := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=40", tag)
		counts(nil) // who waits has no response yet
		alice.Create("plaza", "b", servicetest.When)
		res := <-news
		servicetest.Is(t, res.Status, 200, "%s", res.Body)
		counts(map[string]float64{"read": 1})
		readings := servicetest.Metric(t, s, "worldevents_list_readings_total")
		(<-servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=1", res.Header.Get("ETag"))).Is(304, "")
		counts(map[string]float64{"unchanged_cached": 1})
		servicetest.Is(t, servicetest.Metric(t, s, "worldevents_list_readings_total")-readings, 0, "readings for a wait")
	})
}

// The log names a list that is too long, and who has made most of it, in one line. Who asks again reads it again only once the world has changed.
func TestListTooLong(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		s.SignIn("bob").Create("plaza", "a", servicetest.When)
		servicetest.AddEvents(s, "plaza", 7000, 1700, 2040, strings.Repeat("🎲", 5000))
		s.Database.Exec("UPDATE events SET creator_id = (SELECT id FROM users WHERE username = 'alice') WHERE creator_id IS NULL")
		for range 3 {
			alice.Get(servicetest.Plaza).IsError(400, "validation_failed", "limit")
		}
		servicetest.Is(t, servicetest.Metric(t, s, "worldevents_lists_too_long_total"), 1, "readings")
		s.Database.Exec("DELETE FROM events WHERE name = 'a'")
		alice.Get(servicetest.Plaza).IsError(400, "validation_failed", "limit")
		servicetest.Is(t, servicetest.Metric(t, s, "worldevents_lists_too_long_total"), 2, "readings")
		servicetest.Eventually(t, "a line says so", func() bool { return strings.Contains(s.Log.String(), "list too long") })
		line := regexp.MustCompile(`(?m)^.*list too long.*$`).FindAllString(s.Log.String(), -1)
		servicetest.True(t, len(line) == 1 && regexp.MustCompile(`WARN.*plaza.*3400170[01].*alice.*34001700`).MatchString(line[0]), "one line says all: %q", line)
	})
}

// The metrics say which build runs on which schema.
func TestBuildAndSchema(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	s := p.ServeReady()
	version := regexp.MustCompile(`^worldevents (\S+)\ncommit (\S+).*\ngo (\S+)\n`).FindStringSubmatch(p.MustRun("version"))
	if version == nil {
		t.Fatal(p.MustRun("version"))
	}
	servicetest.Is(t, s.Metric(fmt.Sprintf("worldevents_build_info{commit=%q,goversion=%q,version=%q}", version[2], version[3], version[1])), 1, "builds")
	files, _ := filepath.Glob(filepath.Join(servicetest.Root(t), "models/internal/schema/migrations/sqlite/*.sql"))
	servicetest.Is(t, s.Metric("worldevents_schema_version"), float64(len(files)), "the version of the schema")
}

// The page about monitoring names every metric of ours, and no other, each follows the conventions of Prometheus, and none has anything of a
// request.
func TestMetricsAreListed(t *testing.T) {
	t.Parallel()
	var listed, got []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(worldevents_\\w+)` \\|").FindAllStringSubmatch(servicetest.Shipped(t, monitoring), -1) {
		listed = append(listed, match[1])
	}
	owner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer owner.Close()
	at, _ := url.Parse(owner.URL)
	for _, db := range []*servicetest.Database{servicetest.SQLite(t), servicetest.Postgres(t)} {
		s := servicetest.Start(t, db, func(o *servicetest.Options) { o.WorldAccess = at })
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "n", servicetest.When)
		alice.Get("/nothing-here").IsError(404, "not_found")
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		servicetest.Is(t, servicetest.Metric(t, s, `worldevents_refreshes_total{outcome="refreshed"}`), 1, "refreshes")
		text := servicetest.Metrics(t, s)
		for _, secret := range []string{"alice", "plaza", id, "nothing-here", alice.Cookie("token"), alice.Cookie("refreshToken"), string(servicetest.Key)} {
			servicetest.Lacks(t, text, secret)
		}
		for _, match := range regexp.MustCompile(`(?m)^# HELP (worldevents_\w+) `).FindAllStringSubmatch(text, -1) {
			got = append(got, match[1])
		}
		for _, problem := range servicetest.Must(promlint.New(strings.NewReader(text)).Lint())(t) {
			servicetest.True(t, !strings.HasPrefix(problem.Metric, "worldevents_"), "a metric of ours has no problem: %v", problem)
		}
	}
	isListed(t, monitoring, listed, got)
}

// isListed fails the test unless a page lists exactly the names that there are.
func isListed(t *testing.T, page string, listed, names []string) {
	t.Helper()
	slices.Sort(listed)
	slices.Sort(names)
	servicetest.Is(t, listed, slices.Compact(names), "what %s lists", page)
}
