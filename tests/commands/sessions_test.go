package commands

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// sessionLine is what `session list --json` prints of a session.
type sessionLine struct {
	ID, Device       string
	Created, Expires time.Time
}

// The sessions of a user, and three ways to end some beside a serving instance.
func TestSessionCommands(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		p = p.With("SESSIONS_PER_USER=3", "SESSION_MAX_AGE=1h")
		list := func(name string) (lines []sessionLine) {
			t.Helper()
			servicetest.NoError(t, json.Unmarshal([]byte(p.MustRun("session", "list", name, "--json")), &lines))
			return lines
		}
		first, second, bob := p.Issue("alice"), p.Issue("alice"), p.Issue("bob")
		s := p.ServeReady()
		is := func(cookies, path string, want int) {
			t.Helper()
			s.Is(want, "GET", path, "", cookies)
		}
		is(first, servicetest.Plaza, 200)
		lines := list("alice")
		if len(lines) != 2 || lines[0].Created.Before(lines[1].Created) || lines[0].Device != "command line" {
			t.Fatalf("want the newer one first: %+v", lines)
		}
		servicetest.Is(t, lines[0].Expires.Sub(lines[0].Created), time.Hour, "its time") // the refresh token would live for longer
		text := p.MustRun("session", "list", "alice")
		servicetest.Is(t, strings.Count(text, "\n"), 3, "lines")
		servicetest.Contains(t, text, lines[0].ID)
		servicetest.Is(t, p.MustRun("session", "revoke", "--json", "--id", lines[0].ID), "{\"revoked\":1}\n", "printed")
		is(second, servicetest.Plaza, 401)
		is(second, servicetest.RefreshPath, 400)
		is(first, servicetest.Plaza, 200)
		servicetest.Is(t, p.MustRun("session", "revoke", "alice"), "revoked: 1\n", "printed")
		is(first, servicetest.Plaza, 401)
		is(first, servicetest.RefreshPath, 400)
		servicetest.Is(t, len(list("alice")), 0, "sessions left")
		is(bob, servicetest.Plaza, 200)
		p.MustRun("session", "revoke", "--all")
		is(bob, servicetest.Plaza, 401)
		is(bob, servicetest.RefreshPath, 400)
		for _, args := range []string{"revoke", "revoke alice --all", "revoke --id x", "revoke nobody", "list nobody"} {
			p.Fails("", strings.Fields("session "+args)...)
		}
	})
}

// A database of the time before is refused in words, and not touched.
func TestOldSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for dialect, empty := range servicetest.EmptyDatabases {
		old := empty(t)
		old.Exec("CREATE TABLE users (id text, refresh_hash text)")
		for _, command := range []string{"migrate", "serve"} {
			failsInTheEnd(t, programOn(t, old), "a table users of another program, or of a version before the first release: name an empty database", command)
		}
		tables := map[string]string{"sqlite": "sqlite_schema", "postgres": "pg_tables WHERE schemaname = 'public'"}[dialect]
		servicetest.Is(t, old.Count(tables), 1, "tables of %s", dialect)
	}
}
