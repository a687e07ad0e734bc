package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// Only serve, migrate and demo migrate: the other commands say so, and change nothing.
func TestCommandsDoNotMigrate(t *testing.T) {
	eachEmptyProgram(t, func(t *testing.T, p *servicetest.Program) {
		name := p.Getenv("DATABASE_URL") // they say which database that is
		if file, ok := strings.CutPrefix(name, "sqlite:"); ok {
			name = filepath.Join(p.Dir, file) + ": "
		}
		name, _, _ = strings.Cut(name, "?")
		for _, command := range []string{"user add alice", "user list", "session issue alice", "session list alice", "session revoke --all", "event prune --before 2020-01-01T00:00:00Z", "user add alice"} {
			p.Fails("run worldevents migrate", strings.Fields(command)...)
			p.Fails(name, strings.Fields(command)...)
		}
		servicetest.Is(t, folderNames(t, p.Dir), "", "files made")
		p.MustRun("migrate")
		p.MustRun("user", "add", "alice")
	})
}

// serve says when it has made a database, and with REQUIRE_DATABASE refuses to: it changes and makes nothing, and serves what is there.
func TestDatabaseIsRequired(t *testing.T) {
	eachEmptyProgram(t, func(t *testing.T, p *servicetest.Program) {
		required := p.With("REQUIRE_DATABASE=true", "LOG_FORMAT=json")
		name := "worldevents.db"
		if strings.HasPrefix(p.Getenv("DATABASE_URL"), "postgres") {
			name, _, _ = strings.Cut(p.Getenv("DATABASE_URL"), "?")
		}
		for range 2 {
			_, stderr, status := required.Run("serve")
			servicetest.Is(t, status, 1, "status")
			for _, words := range []string{"REQUIRE_DATABASE", name, "worldevents migrate"} {
				servicetest.Contains(t, stderr, words)
			}
			servicetest.Is(t, folderNames(t, p.Dir), "", "files made")
		}
		const made = "a new one was made"
		s := p.With("LOG_FORMAT=json").ServeReady()
		if text := s.AwaitMessage("ready"); strings.Count(text, made) != 1 || !strings.Contains(text, name) || !strings.Contains(text, `"level":"WARN"`) {
			t.Errorf("%s", text)
		}
		s.Stop()
		s = required.ServeReady()
		servicetest.Lacks(t, s.AwaitMessage("ready"), made)
	})
	// An empty file is no database.
	p := servicetest.NewEmptyProgram(t, "REQUIRE_DATABASE=true")
	servicetest.NoError(t, os.WriteFile(filepath.Join(p.Dir, "worldevents.db"), nil, 0o600))
	_, stderr, _ := p.Run("serve")
	servicetest.Contains(t, stderr, "REQUIRE_DATABASE")
}

// A database that has lost a table or a column is none to serve, and neither is one that needs a newer program. A newer
// schema that says nothing of the kind is one warning.
func TestSchemaIsChecked(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		refused := func(want string, commands ...string) {
			t.Helper()
			for _, command := range append(commands, "migrate") {
				failsInTheEnd(t, p, want, strings.Fields(command)...)
			}
		}
		for _, lost := range []struct{ lose, find, table string }{
			{"ALTER TABLE sessions RENAME TO lost", "ALTER TABLE lost RENAME TO sessions", "table sessions"},
			{"ALTER TABLE users RENAME TO lost", "ALTER TABLE lost RENAME TO users", "table users"},
			{"ALTER TABLE compatibility RENAME TO lost", "ALTER TABLE lost RENAME TO compatibility", "table compatibility"},
			{"ALTER TABLE events RENAME COLUMN description TO lost", "ALTER TABLE events RENAME COLUMN lost TO description", "table events"},
		} {
			db.Exec(lost.lose)
			refused(lost.table)
			db.Exec(lost.find)
		}
		db.Exec("ALTER TABLE rsvps RENAME TO lost")
		refused("table rsvps", "serve", "demo", "user add x")
		db.Exec("ALTER TABLE lost RENAME TO rsvps")
		p.MustRun("migrate")
		db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (7, true)")
		p.MustRun("migrate")
		p.MustRun("user", "add", "alice")
		s := p.ServeReady()
		servicetest.Eventually(t, "a newer schema is warned of", func() bool { // other lines come first
			text := s.Log.String()
			return strings.Count(text, "newer than this version") == 1 && strings.Contains(text, "schema=7")
		})
		s.Stop()
		db.Exec("UPDATE compatibility SET oldest = 6")
		refused("schema 7, which programs that know schema 6 can use", "serve", "demo", "user add x")
	})
}

// A role or a database may limit the time of statements and of idle transactions. Migrations do not mind.
func TestMigrationsIgnoreLimitsOfTheRole(t *testing.T) {
	t.Parallel()
	db := servicetest.EmptyPostgres(t)
	for _, setting := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		db.Exec("ALTER DATABASE " + text(db, "current_database()") + " SET " + setting + " = '1s'")
	}
	// The first index takes longer than that, and a transaction with the lock of all migrations is idle meanwhile.
	db.Exec("CREATE SEQUENCE indexes")
	db.Exec(`CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('indexes') = 1 THEN PERFORM pg_sleep(2); END IF;
	END $$`)
	db.Exec("CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION slow()")
	servicetest.NewProgram(t, "DATABASE_URL="+db.URL).MustRun("migrate")
}
