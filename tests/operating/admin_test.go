package operating

import (
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestProbes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		is := func(livez, readyz int) {
			t.Helper()
			for path, want := range map[string]int{"/livez": livez, "/readyz": readyz} {
				if status, body := servicetest.AdminGet(t, s, path); status != want {
					t.Errorf("%s: %d %s, want %d", path, status, body, want)
				}
			}
		}
		is(200, 200)
		s.Store.Close()
		is(200, 503)
		draining := s.NewInstance()
		draining.Drain()
		s = draining
		is(200, 503)
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
	if status, body := servicetest.AdminGet(t, readOnly, "/readyz"); status != 503 {
		t.Errorf("/readyz %d %s", status, body)
	}
	token := servicetest.Cookies("token=" + s.JWT(s.Claims(alice, time.Hour)))
	if detail := readOnly.Client().Post(servicetest.Plaza, servicetest.EventBody, token).IsError(500, "internal").Error().Detail; detail != "create event: database unavailable" {
		t.Errorf("detail %q", detail)
	}
}

// Labels come from the contract, never from a request; no value of any cookie is among them.
func TestMetrics(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "n", servicetest.When)
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "alice")))
		s.Client().Get(servicetest.Plaza).IsError(401, "no_token")
		alice.Get("/nothing-here").IsError(404, "not_found")
		alice.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		text := servicetest.Metrics(t, s)
		for _, line := range []string{
			responses("createEvent", 200, "") + " 1",
			responses("listEvents", 200, "") + " 1",
			responses("joinEvent", 200, "") + " 1",
			responses("listEvents", 401, "no_token") + " 1",
			`worldevents_refreshes_total{outcome="refreshed"} 1`,
			`worldevents_request_duration_seconds_count{operation="refreshSession"} 1`,
			`go_sql_max_open_connections{db_name="` + s.Database.Dialect,
			"process_resident_memory_bytes", "go_goroutines",
		} {
			if !strings.Contains(text, line) {
				t.Errorf("no %s", line)
			}
		}
		for _, secret := range []string{"alice", "plaza", id, "nothing-here", alice.Cookie("token"), alice.Cookie("refreshToken"), string(servicetest.Key)} {
			if strings.Contains(text, secret) {
				t.Errorf("metrics show %s", secret)
			}
		}
	})
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
		if status != 200 || len(text) < 100 {
			t.Errorf("%s: %d with %d bytes", path, status, len(text))
		}
		for _, secret := range []string{id, alice.Cookie("token"), alice.Cookie("refreshToken"), string(servicetest.Key)} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s", path, secret)
			}
		}
		alice.Get(path).IsError(404, "not_found")
	}
}
