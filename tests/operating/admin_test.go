package operating

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestProbes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		is := func(s *servicetest.Service, path string, want int) {
			t.Helper()
			status, body := servicetest.AdminGet(t, s, path)
			servicetest.Is(t, status, want, "%s: %s", path, body)
		}
		servicetest.Eventually(t, "it is ready", func() bool { // a first connection may take longer than a probe waits
			status, _ := servicetest.AdminGet(t, s, "/readyz")
			return status == 200
		})
		is(s, "/livez", 200)
		s.Store.Close()
		is(s, "/livez", 200)
		is(s, "/readyz", 503)
		draining := s.NewInstance()
		draining.Drain()
		is(draining, "/livez", 200)
		is(draining, "/readyz", 503)
	})
}

// An instance whose database takes no writes must get none.
func TestReadinessOfReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	s := servicetest.Start(t, db)
	alice := s.AddUser("alice")
	var name string
	db.Read("SELECT current_database()", nil, &name)
	db.Exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	readOnly := s.NewInstance() // new connections get the setting
	status, body := servicetest.AdminGet(t, readOnly, "/readyz")
	servicetest.Is(t, status, 503, "/readyz: %s", body)
	token := servicetest.Cookies("token=" + s.JWT(s.Claims(alice, time.Hour)))
	servicetest.Is(t, readOnly.Client().Post(servicetest.Plaza, servicetest.EventBody, token).IsError(500, "internal").Error().Detail, "create event: database unavailable", "detail")
}

// Profiles are for the operator alone, and show the program but nothing of what it handles.
func TestProfiles(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	alice := s.SignIn("alice")
	id := alice.Create("plaza", "n", servicetest.When)
	for _, path := range []string{"profile?seconds=1", "trace?seconds=1", "heap", "allocs", "goroutine?debug=2"} {
		path = "/debug/pprof/" + path
		status, text := servicetest.AdminGet(t, s, path)
		servicetest.True(t, status == 200 && len(text) > 100, "%s has a profile: %d %.100s", path, status, text)
		for _, secret := range []string{id, alice.Cookie("token"), alice.Cookie("refreshToken"), string(servicetest.Key)} {
			servicetest.Lacks(t, text, secret)
		}
		alice.Get(path).IsError(404, "not_found")
	}
}

// A profile takes a minute at most.
func TestLongProfiles(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	at := servicetest.NewBrowser(s.AdminURL, http.DefaultTransport)
	at.Timeout = 5 * time.Second // for the answer, which is no profile
	for _, seconds := range []string{"61", "1e9", "NaN", "-1", "x", "60.5&seconds=1"} {
		for _, kind := range []string{"profile", "trace", "heap", ""} {
			res := at.Do("GET", "/debug/pprof/"+kind+"?seconds="+seconds, "")
			servicetest.Is(t, res.Body, "seconds must be a number up to 60\n", "%s for %s: %v", kind, seconds, res)
			res.Is(t, 400)
		}
	}
}

// A page in a browser that reaches the operator's listener can ask it by a name of its own (DNS rebinding), and learns nothing.
// Health checks send any name or none.
func TestOperatorHosts(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	_, port, _ := net.SplitHostPort(p.Getenv("ADMIN_ADDR"))
	s := p.With("ADMIN_ADDR=localhost:"+port, "ADMIN_HOSTS=metrics.internal,worldevents").ServeReady()
	ask := func(path, host string) int {
		conn := servicetest.Must(net.Dial("tcp", strings.TrimPrefix(s.AdminURL, "http://")))(t)
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n%s\r\n", path, host)
		return servicetest.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t).StatusCode
	}
	for _, host := range []string{
		"127.0.0.1:9090", "127.0.0.1", "10.1.2.3:1", "[::1]:9090", "[::1]", "[fe80::1%25eth0]:9090", "localhost", "LocalHost:9090",
		"metrics.internal", "Metrics.Internal:9090", "worldevents:80",
	} {
		for path, want := range map[string]int{"/metrics": 200, "/debug/pprof/": 200, "/nowhere": 404, "/livez": 200} {
			servicetest.Is(t, ask(path, "Host: "+host+"\r\n"), want, "%s of %q", path, host)
		}
	}
	for _, host := range []string{
		"evil.example", "evil.example:9090", "localhost.evil.example", "x.metrics.internal", "metrics",
		"127.0.0.1.evil.example", "127.1", "0x7f000001", "2130706433", "", ":9090",
	} {
		for path, want := range map[string]int{"/metrics": 421, "/debug/pprof/": 421, "/debug/pprof/heap": 421, "/nowhere": 421, "/livez": 200, "/readyz": 200} {
			servicetest.Is(t, ask(path, "Host: "+host+"\r\n"), want, "%s of %q", path, host)
		}
	}
	for _, site := range []string{"same-origin", "none", "same-site", "cross-site"} {
		elsewhere := site == "same-site" || site == "cross-site"
		for _, mode := range []string{"navigate", "no-cors", "cors"} {
			for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/debug/pprof/heap"} {
				want := 200
				if elsewhere && (mode != "navigate" || strings.HasPrefix(path, "/debug/")) {
					want = 403
				}
				servicetest.Is(t, ask(path, "Host: localhost\r\nSec-Fetch-Site: "+site+"\r\nSec-Fetch-Mode: "+mode+"\r\n"), want, "%s, %s by a page that is %s", path, mode, site)
			}
		}
	}
	servicetest.Is(t, ask("/metrics", ""), 421, "without Host")
	servicetest.Is(t, ask("/readyz", ""), 200, "readiness without Host")
}
