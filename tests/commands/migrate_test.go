package commands

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Only serve, migrate and demo migrate: the other commands say so, and change nothing.
func TestCommandsDoNotMigrate(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		for _, args := range [][]string{{"user", "add", "alice"}, {"session", "issue", "alice"}, {"session", "list", "alice"}, {"session", "revoke", "--all"}} {
			for range 2 {
				if stdout, stderr, status := p.Run(args...); status != 1 || stdout != "" || !servicetest.OneLine(stderr, "run worldevents migrate") {
					t.Errorf("%v: %d %q %q", args, status, stdout, stderr)
				}
			}
		}
		p.MustRun("migrate")
		p.MustRun("user", "add", "alice")
	})
}

// A database that has lost a table or a column is none to serve, and neither is one that needs a newer program. A newer
// schema that says nothing of the kind is one warning.
func TestSchemaIsChecked(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		refused := func(want string) {
			t.Helper()
			for _, args := range [][]string{{"migrate"}, {"serve"}, {"demo"}, {"user", "add", "x"}} {
				if stdout, stderr, status := p.Run(args...); status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 && args[0] != "serve" || !strings.Contains(stderr, want) {
					t.Errorf("%v: %d %q %q, want %q", args, status, stdout, stderr, want)
				}
			}
		}
		for _, lost := range []struct{ lose, find, table string }{
			{"ALTER TABLE rsvps RENAME TO lost", "ALTER TABLE lost RENAME TO rsvps", "table rsvps"},
			{"ALTER TABLE sessions RENAME TO lost", "ALTER TABLE lost RENAME TO sessions", "table sessions"},
			{"ALTER TABLE users RENAME TO lost", "ALTER TABLE lost RENAME TO users", "table users"},
			{"ALTER TABLE compatibility RENAME TO lost", "ALTER TABLE lost RENAME TO compatibility", "table compatibility"},
			{"ALTER TABLE events RENAME COLUMN description TO lost", "ALTER TABLE events RENAME COLUMN lost TO description", "table events"},
		} {
			db.Exec(lost.lose)
			refused(lost.table)
			db.Exec(lost.find)
		}
		p.MustRun("migrate")
		db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (7, true)")
		p.MustRun("migrate")
		p.MustRun("user", "add", "alice")
		s := p.ServeReady()
		servicetest.Eventually(t, 5*time.Second, "a newer schema is warned of", func() bool { // other lines come first
			text := s.Log.String()
			return strings.Count(text, "newer than this version") == 1 && strings.Contains(text, "schema=7")
		})
		s.Signal(syscall.SIGINT)
		s.Wait(20 * time.Second)
		db.Exec("UPDATE compatibility SET oldest = 6")
		refused("schema 7, which programs that know schema 6 can use")
	})
}

// A role or a database may limit the time of statements and of idle transactions. Migrations do not mind.
func TestMigrationsIgnoreLimitsOfTheRole(t *testing.T) {
	t.Parallel()
	db := servicetest.EmptyPostgres(t)
	var name string
	db.Read("SELECT current_database()", nil, &name)
	for _, setting := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		db.Exec(fmt.Sprintf("ALTER DATABASE %s SET %s = '1s'", name, setting))
	}
	// The first index takes longer than that, and a transaction with the lock of all migrations is idle meanwhile.
	db.Exec("CREATE SEQUENCE indexes")
	db.Exec(`CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('indexes') = 1 THEN PERFORM pg_sleep(2); END IF;
	END $$`)
	db.Exec("CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION slow()")
	servicetest.NewProgram(t, "DATABASE_URL="+db.URL).MustRun("migrate")
}
