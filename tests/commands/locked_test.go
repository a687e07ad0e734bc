package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
				servicetest.Lacks(t, p.Fails("database busy", test.args(event, session)...), "audit")
				servicetest.Is(t, db.Count(test.done, session), 0, "done in vain")
			}
			servicetest.CommitUnder(t, db, tx, 2*time.Second, func() { p.MustRun(test.args(event, session)...) })
			servicetest.Is(t, db.Count(test.done, session), 1, "done")
		})
	}
}

// A command whose reading takes several statements waits for who writes a table anew, however long that takes, and says who that is. Then it
// reads all rows. To a snapshot of before such a table is empty.
func TestCommandsWaitForRewrittenTables(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"users", "events", "rsvps"} {
		for command, args := range map[string][]string{"copy": {"copy", "--to", "sqlite:%s.db"}, "user show": {"user", "show", "user 1"}, "event show": {"event", "show", servicetest.IDOf(1)}} {
			t.Run(command+" beside "+table, func(t *testing.T) {
				t.Parallel()
				db := servicetest.Postgres(t)
				servicetest.Seed(db, 3, 2, 6)
				db.Exec("UPDATE events SET id = ?, creator_id = (SELECT id FROM users WHERE username = 'user 1') WHERE number = 1", servicetest.IDOf(1))
				p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_TIMEOUT=1s")
				before := readBy(t, p, "before", nil, args)
				db.Exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = 900', current_database()); EXECUTE format('ALTER DATABASE %I SET lock_timeout = 100', current_database()); END $$")
				tx := servicetest.BeginTx(t, db, "ALTER TABLE "+table+" ALTER created_at TYPE timestamptz USING created_at + interval '0'")
				var pid int
				servicetest.NoError(t, tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid))
				after := readBy(t, p, "after", func(said *servicetest.Log) {
					who := fmt.Sprintf("worldevents: waiting for the process %d of the role ", pid)
					servicetest.Eventually(t, "it says for whom it waits", func() bool { return strings.Contains(said.String(), who) })
					servicetest.NoError(t, tx.Commit())
				}, args)
				servicetest.Is(t, after, before, "what was read after the table was written anew")
				servicetest.Is(t, command == "copy" || strings.Contains(before, "user 1"), true, "it was read: %s", before)
			})
		}
	}
}

// Who waits for somebody who waits for a table says so, too.
func TestCommandsWaitBehindQueue(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	db.DB.SetMaxOpenConns(3)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
	reader, writer := servicetest.BeginTx(t, db, "SELECT FROM rsvps"), servicetest.BeginTx(t, db)
	var pid int
	servicetest.NoError(t, writer.QueryRow("SELECT pg_backend_pid()").Scan(&pid))
	rewritten := make(chan error)
	go func() {
		_, err := writer.Exec("TRUNCATE rsvps")
		rewritten <- errors.Join(err, writer.Commit())
	}()
	db.AwaitLock(t)
	readBy(t, p, "backup", func(said *servicetest.Log) {
		who := fmt.Sprintf("waiting for the process %d of the role ", pid)
		servicetest.Eventually(t, "it says for whom it waits", func() bool {
			return strings.Contains(said.String(), who) && strings.Contains(said.String(), ", which waits to have rsvps locked\n")
		})
		reader.Rollback()
		servicetest.NoError(t, <-rewritten)
	}, []string{"copy", "--to", "sqlite:%s.db"})
}

// readBy runs a command, and meanwhile is called while it runs. It returns what was read: what the command prints, of a copy the checksum and
// the numbers of rows. %s in args becomes name.
func readBy(t *testing.T, p *servicetest.Program, name string, meanwhile func(stderr *servicetest.Log), args []string) string {
	t.Helper()
	var stdout bytes.Buffer
	stderr := new(servicetest.Log)
	command := p.Command(strings.Split(strings.ReplaceAll(strings.Join(args, "\n"), "%s", name), "\n")...)
	command.Stdout, command.Stderr = &stdout, stderr
	ended := servicetest.Must(servicetest.StartCommand(command))(t)
	t.Cleanup(func() {
		command.Process.Kill()
		<-ended
	})
	if meanwhile != nil {
		meanwhile(stderr)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("%q goes on: %s", args, stderr)
	}
	servicetest.Is(t, command.ProcessState.ExitCode(), 0, "status of %q: %s", args, stderr)
	if args[0] != "copy" {
		return stdout.String()
	}
	var copied servicetest.Copied
	servicetest.NoError(t, json.Unmarshal(stdout.Bytes(), &copied))
	return fmt.Sprint(copied.Checksum, copied.Rows)
}
