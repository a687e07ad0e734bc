package commands

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// sessionLine is what `session list --json` prints of a session.
type sessionLine struct {
	ID, Device, Network         string
	Created, Refreshed, Expires time.Time
}

// The sessions of a user, and three ways to end some beside a serving instance.
func TestSessionCommands(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		p = p.With("SESSIONS_PER_USER=3", "SESSION_MAX_AGE=1h")
		issue := func(name string) string { return p.Issue(name) }
		list := func(name string) (lines []sessionLine) {
			t.Helper()
			servicetest.NoError(t, json.Unmarshal([]byte(p.MustRun("session", "list", name, "--json")), &lines))
			return lines
		}
		first, second, bob := issue("alice"), issue("alice"), issue("bob")
		s := p.ServeReady()
		is := func(cookies, path string, want int) {
			t.Helper()
			if status, body := s.Do("GET", path, "", cookies); status != want {
				t.Errorf("GET %s: %d %s, want %d", path, status, body, want)
			}
		}
		is(first, servicetest.Plaza, 200)
		lines := list("alice")
		if len(lines) != 2 || lines[0].Created.Before(lines[1].Created) || lines[0].Device != "command line" {
			t.Fatalf("want the newer one first: %+v", lines)
		}
		if hour := lines[0].Expires.Sub(lines[0].Created); hour != time.Hour { // the refresh token would live for longer
			t.Errorf("it expires after %v", hour)
		}
		if text := p.MustRun("session", "list", "alice"); strings.Count(text, "\n") != 3 || !strings.Contains(text, lines[0].ID) {
			t.Errorf("printed %q", text)
		}
		servicetest.Is(t, p.MustRun("session", "revoke", "--json", "--id", lines[0].ID), "{\"revoked\":1}\n", "printed")
		is(second, servicetest.Plaza, 401)
		is(second, servicetest.RefreshPath, 400)
		is(first, servicetest.Plaza, 200)
		servicetest.Is(t, p.MustRun("session", "revoke", "alice"), "revoked: 1\n", "printed")
		is(first, servicetest.Plaza, 401)
		is(first, servicetest.RefreshPath, 400)
		if lines := list("alice"); len(lines) != 0 {
			t.Errorf("left: %+v", lines)
		}
		is(bob, servicetest.Plaza, 200)
		p.MustRun("session", "revoke", "--all")
		is(bob, servicetest.Plaza, 401)
		is(bob, servicetest.RefreshPath, 400)
		for _, args := range [][]string{{"revoke"}, {"revoke", "alice", "--all"}, {"revoke", "--id", "x"}, {"revoke", "nobody"}, {"list", "nobody"}} {
			if stdout, stderr, status := p.Run(append([]string{"session"}, args...)...); status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%v: %d %q %q", args, status, stdout, stderr)
			}
		}
	})
}

// A database of the time before is refused in words, and not touched.
func TestOldSchemaIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "old.db")
	db := servicetest.Must(sql.Open("sqlite", file))(t)
	servicetest.Must(db.Exec("CREATE TABLE users (id TEXT, refresh_hash BLOB)"))(t)
	db.Close()
	refused(t, servicetest.NewProgram(t, "DATABASE_URL=sqlite:"+file))
	old := servicetest.EmptyPostgres(t)
	old.Exec("CREATE TABLE users (id uuid, refresh_hash bytea)")
	refused(t, servicetest.NewProgram(t, "DATABASE_URL="+old.URL))
	servicetest.Is(t, old.Count("pg_tables WHERE schemaname = 'public'"), 1, "tables")
}

func refused(t *testing.T, p *servicetest.Program) {
	t.Helper()
	for _, command := range []string{"migrate", "serve"} {
		if stdout, stderr, status := p.Run(command); status != 1 || stdout != "" || !strings.Contains(stderr, "a table users of another program, or of a version before the first release: name an empty database") {
			t.Errorf("%s: %d %q %q", command, status, stdout, stderr)
		}
	}
}
