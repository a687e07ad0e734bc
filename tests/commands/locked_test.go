package commands

import (
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A command that needs a row which somebody has locked waits for it, longer than a request would. One that waits in vain has changed
// nothing, and says so.
func TestCommandsWaitForLockedRows(t *testing.T) {
	t.Parallel()
	const user, sessions = "users WHERE username = 'alice'", "sessions WHERE user_id = (SELECT id FROM users WHERE username = 'alice')"
	for _, test := range []struct {
		name, row string
		args      func(event, session string) []string
		done      string // a row that there is when the command has done its work, and not before
	}{
		{"session issue", user, func(string, string) []string { return []string{"session", "issue", "alice"} },
			sessions + " AND token_hash IS NOT NULL AND id <> ?"},
		{"session revoke", sessions, func(string, string) []string { return []string{"session", "revoke", "alice"} },
			sessions + " AND revoked_at IS NOT NULL AND id = ?"},
		{"session revoke --id", sessions, func(_, session string) []string { return []string{"session", "revoke", "--id", session} },
			sessions + " AND revoked_at IS NOT NULL AND id = ?"},
		{"event remove", "events", func(event, _ string) []string { return []string{"event", "remove", event} },
			sessions + " AND id = ? AND NOT EXISTS (SELECT FROM events WHERE world_id = 'w')"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := servicetest.Postgres(t)
			s := servicetest.Start(t, db)
			event := s.SignIn("alice").Create("w", "n", servicetest.When)
			var session string
			db.Read("SELECT CAST(id AS text) FROM "+sessions, nil, &session)
			p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_TIMEOUT=1s")
			tx := servicetest.BeginTx(t, db, "SELECT FROM "+test.row+" FOR UPDATE")
			if test.name == "session issue" { // for all: it takes a quarter of a minute
				stdout, stderr, status := p.Run(test.args(event, session)...)
				if status != 1 || stdout != "" || !servicetest.OneLine(stderr, "database busy") || strings.Contains(stderr, "audit") {
					t.Errorf("in vain: %d %q %q", status, stdout, stderr)
				}
				if db.Count(test.done, session) != 0 {
					t.Error("in vain, and done")
				}
			}
			servicetest.CommitUnder(t, db, tx, 2*time.Second, func() { p.MustRun(test.args(event, session)...) })
			if db.Count(test.done, session) != 1 {
				t.Error("not done")
			}
		})
	}
}
