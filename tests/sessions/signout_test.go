package sessions

import (
	"fmt"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

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
				if got := calls() - before; got != want {
					t.Errorf("%s %s with %d refresh tokens: %.0f calls to the database, want %.0f", test.method, test.path, n, got, want)
				}
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
	if n := s.Database.Count("sessions WHERE revoked_at IS NOT NULL"); n != 1 {
		t.Errorf("%d sessions are revoked, want 1", n)
	}
	alice.Post("/sign-out?everywhere=true", "").Is(204, "")
}
