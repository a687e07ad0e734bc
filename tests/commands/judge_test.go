package commands

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"worldevents/tests/servicetest"
)

// broken is a state of a database that somebody else has brought about.
type broken struct {
	name       string
	statements []string
	says       string // what check says, and serve
	// cured means that serve and migrate put it right. Otherwise they refuse, and change nothing.
	cured bool
	// empty is a database without tables, and as the role that looks at it where that is not the owner of the tables. fixed are
	// statements after which there is no fault.
	empty, as bool
	fixed     []string
}

var brokenSQLite = []broken{
	{name: "no trigger", statements: []string{"DROP TRIGGER changes_rsvps_insert"}, says: `triggers changes_… \(rsvps_insert\) are missing.*: run worldevents migrate$`, cured: true},
	{name: "a table renamed", statements: []string{"ALTER TABLE incarnation RENAME TO lost"}, says: "table incarnation: no column horizon: restore a backup", fixed: []string{"ALTER TABLE lost RENAME TO incarnation"}},
}

var brokenPostgres = []broken{
	{name: "pg_restore --data-only --disable-triggers", statements: []string{"ALTER TABLE rsvps DISABLE TRIGGER ALL", "ALTER TABLE rsvps ENABLE TRIGGER ALL"},
		says: `triggers rsvps\.changes_after, rsvps\.changes_before, rsvps\.changes_delete, rsvps\.changes_insert .*always fire.*: run worldevents migrate$`, cured: true},
	{name: "no trigger", statements: []string{"DROP TRIGGER changes_move ON events"}, says: `triggers events\.changes_move are missing.*: run worldevents migrate$`, cured: true},
	{name: "no function", statements: []string{"DROP FUNCTION mark_leave CASCADE"}, says: `functions mark_leave are missing.*: run worldevents migrate$`, cured: true},
	{name: "a schema renamed", statements: []string{"ALTER SCHEMA public RENAME TO \"my worlds\"", "ALTER ROLE %[1]s SET search_path = \"my worlds\""},
		says: "functions await_rsvps, mark_event, .*another schema.*: run worldevents migrate$", cured: true},
	{name: "pg_restore -x", statements: []string{"GRANT EXECUTE ON FUNCTION mark_join TO PUBLIC"}, says: "anybody may run the functions mark_join .*: run worldevents migrate$", cured: true},
	{name: "sequences left behind", statements: []string{"SELECT setval('events_number_seq', 1, false)", "SELECT setval('users_number_seq', 1)", "SELECT setval('goose_db_version_id_seq', 1, false)"},
		says: "numbers of new rows in (events|users|goose_db_version), (events|users|goose_db_version), (events|users|goose_db_version) are taken.*: run worldevents migrate$", cured: true},
	{name: "another's function", statements: []string{"ALTER FUNCTION mark_event OWNER TO postgres"}, says: `functions do not belong to .*: ALTER FUNCTION mark_event\(\) OWNER TO %[1]s$`,
		fixed: []string{"ALTER FUNCTION mark_event OWNER TO %[1]s"}},
	{name: "CREATE for PUBLIC", statements: []string{"GRANT CREATE ON SCHEMA public TO PUBLIC"}, says: "anybody may put functions .*: REVOKE CREATE ON SCHEMA public FROM PUBLIC$",
		fixed: []string{"REVOKE CREATE ON SCHEMA public FROM PUBLIC"}},
	{name: "a column dropped", statements: []string{"ALTER TABLE sessions RENAME spent TO lost"}, says: "table sessions: no column spent: restore a backup$", fixed: []string{"ALTER TABLE sessions RENAME lost TO spent"}},
	{name: "no right to write", as: true, statements: []string{"REVOKE DELETE ON rsvps FROM %[1]s"}, says: "the role may not read and write rsvps: GRANT SELECT", fixed: []string{"GRANT DELETE ON rsvps TO %[1]s"}},
	{name: "not the owner", as: true, statements: []string{"DROP TRIGGER changes_move ON events"}, says: "events.changes_move are missing.*: run worldevents migrate as the role postgres, who owns the tables$",
		fixed: []string{"CREATE TRIGGER changes_move BEFORE UPDATE OF world_id ON events FOR EACH ROW WHEN (OLD.world_id <> NEW.world_id AND NEW.world_id <> '') EXECUTE FUNCTION await_rsvps()",
			"ALTER TABLE events ENABLE ALWAYS TRIGGER changes_move"}},
	{name: "a schema without CREATE", empty: true, as: true, says: "the role may make no tables in the schema public: GRANT CREATE ON SCHEMA public TO %[1]s$", fixed: []string{"GRANT CREATE ON SCHEMA public TO %[1]s"}},
	{name: "no schema", empty: true, as: true, statements: []string{"ALTER ROLE %[1]s SET search_path = nowhere", "GRANT CREATE ON SCHEMA public TO %[1]s"}, says: "search_path names no schema that the role may use",
		fixed: []string{"ALTER ROLE %[1]s RESET search_path"}},
	{name: "CREATE for PUBLIC before", empty: true, statements: []string{"GRANT CREATE ON SCHEMA public TO PUBLIC"}, says: "REVOKE CREATE ON SCHEMA public FROM PUBLIC$", fixed: []string{"REVOKE CREATE ON SCHEMA public FROM PUBLIC"}},
	{name: "another program's table", empty: true, statements: []string{"CREATE TABLE events (id int)"}, says: "it has a table events of another program.*: name an empty database$", fixed: []string{"DROP TABLE events"}},
}

// check tells what serve would refuse or put right, in the same words, and exits with 1. What serve puts right is no fault after that.
func TestJudgement(t *testing.T) {
	t.Parallel()
	try := func(t *testing.T, b broken, p *servicetest.Program, exec func(string), role string) {
		with := func(text string) string { return strings.ReplaceAll(text, "%[1]s", role) }
		for _, statement := range b.statements {
			exec(with(statement))
		}
		servicetest.Finds(t, p, "fault", with(b.says))
		says := regexp.MustCompile(strings.TrimSuffix(with(b.says), "$"))
		tells := func(command, text string) {
			t.Helper()
			text = strings.ReplaceAll(text, `\"`, "")
			servicetest.Is(t, says.MatchString(text), true, "%s says %v: %s", command, says, text)
			servicetest.Lacks(t, text, "delete it")
		}
		if !b.cured {
			for _, command := range []string{"serve", "migrate"} {
				_, stderr, status := p.Run(command)
				tells(command, stderr)
				servicetest.Is(t, status, 1, "status of %s", command)
			}
			servicetest.Finds(t, p, "fault", with(b.says))
			for _, statement := range b.fixed {
				exec(with(statement))
			}
		} else {
			s := p.ServeReady()
			tells("serve", s.AwaitMessage("ready"))
			s.Stop()
		}
		servicetest.Sound(t, p)
		_, stderr := p.Succeeds("migrate")
		servicetest.Is(t, stderr, "", "what migrate says of what is put right")
		p.MustRun("session", "issue", "somebody new")
	}
	for _, b := range brokenSQLite {
		t.Run("sqlite/"+b.name, func(t *testing.T) {
			t.Parallel()
			db := servicetest.SQLite(t)
			try(t, b, servicetest.NewProgram(t, "DATABASE_URL="+db.URL), func(statement string) { db.Exec(statement) }, "")
		})
	}
	for _, b := range brokenPostgres {
		t.Run("postgres/"+b.name, func(t *testing.T) {
			t.Parallel()
			db := servicetest.EmptyPostgres(t)
			owner := db.As("owner")
			db.Exec("ALTER DATABASE " + text(db, "current_database()") + " OWNER TO " + user(owner))
			p, role := servicetest.NewProgram(t, "DATABASE_URL="+owner.URL), user(owner)
			if b.as {
				if !b.empty {
					servicetest.NewProgram(t, "DATABASE_URL="+db.URL).MustRun("migrate")
				}
				other := db.As("other")
				p, role = servicetest.NewProgram(t, "DATABASE_URL="+other.URL), user(other)
			} else if !b.empty {
				p.MustRun("demo")
			}
			try(t, b, p, func(statement string) { db.Exec(statement) }, role)
		})
	}
}

func user(db *servicetest.Database) string { return text(db, "current_user") }

// text is the value of an expression.
func text(db *servicetest.Database, expression string) (text string) {
	db.Read("SELECT CAST("+expression+" AS text)", nil, &text)
	return text
}

// While users write nothing is said of sequences that go on, migrate sets those that are behind for good, and never back.
func TestSequencesBesideWriters(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
	s := p.ServeReady()
	cookies := p.Issue("alice")
	s.Do("POST", servicetest.Plaza, servicetest.EventBody, cookies) // one row beside a fresh sequence
	db.Exec("SELECT setval('events_number_seq', 1, false)")
	s.Is(500, "POST", servicetest.Plaza, servicetest.EventBody, cookies)
	db.Exec("SELECT setval('events_number_seq', 1, false)")
	servicetest.Finds(t, p, "fault", "numbers of new rows in events are taken")

	db.Exec("SELECT setval('events_number_seq', 100)")
	db.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) SELECT gen_random_uuid(), 'crowd', 'n', '', '2030-01-01', now() FROM generate_series(1, 20000)")
	db.Exec("SELECT setval('events_number_seq', 1, false)")
	var migrated, done atomic.Bool
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			for !done.Load() {
				after := migrated.Load()
				if status, body := s.Do("POST", servicetest.Plaza, servicetest.EventBody, cookies); status != 200 && status != 503 && after {
					t.Errorf("after migrate: %d %s", status, body)
				}
			}
		})
	}
	_, stderr := p.Succeeds("migrate")
	servicetest.Contains(t, stderr, "numbers of new rows")
	migrated.Store(true)
	before := db.Count("events")
	servicetest.Eventually(t, "events are created", func() bool { return db.Count("events") > before+200 })
	for range 3 {
		servicetest.Sound(t, p)
		p.MustRun("migrate")
	}
	done.Store(true)
	wait.Wait()
	// Forward alone: a sequence that has given out more than there is stays where it is.
	db.Exec("SELECT setval('events_number_seq', 1000000)")
	db.Exec("SELECT setval('users_number_seq', 1, false)")
	_, stderr = p.Succeeds("migrate")
	servicetest.Lacks(t, stderr, "in events")
	servicetest.Is(t, db.Count("events_number_seq WHERE last_value >= 1000000"), 1, "sequences of events that did not go back")
}

// A role that may not read a sequence is told nothing, and an instance of it serves.
func TestUnreadableSequences(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	db.Exec("SELECT setval('users_number_seq', 7)")
	other := db.As("other")
	p := servicetest.NewProgram(t, "DATABASE_URL="+other.URL)
	servicetest.Sound(t, p)
	p.ServeReady()
	p.MustRun("user", "add", "alice")
	db.Exec("SELECT setval('users_number_seq', 1, false)")
	servicetest.Sound(t, p)
	// What is taken is not the username.
	db.Exec("SELECT setval('users_number_seq', 7)")
	p.Fails("users_pkey", "user", "add", "bob")
	db.Exec("SELECT setval('users_number_seq', 7)")
	p.Fails("a number or an id of the new user is taken", "session", "issue", "bob")
	db.Exec("GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO " + user(other))
	db.Exec("SELECT setval('users_number_seq', 1, false)")
	servicetest.Finds(t, p, "fault", "numbers of new rows in users are taken.* as the role postgres, who owns the tables$")
}

// An instance that has run through a restore which left no marks shows what it brought once migrate has run.
func TestRestoreWithoutMarks(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		s := p.ServeReady()
		cookies := p.Issue("alice")
		s.Do("POST", servicetest.Plaza, servicetest.EventBody, cookies)
		list := func() int {
			_, body := s.Do("GET", servicetest.Plaza, "", cookies)
			return strings.Count(body, `"name"`)
		}
		servicetest.Is(t, list(), 1, "events")
		insert := "INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) SELECT '" + servicetest.IDOf(9) + "', world_id, 'restored', '', scheduled_at, created_at FROM events"
		if db.Dialect == "sqlite" {
			db.Exec("DROP TRIGGER changes_events_insert")
			db.Exec(insert)
		} else {
			db.Exec("ALTER TABLE events DISABLE TRIGGER ALL")
			db.Exec(insert)
			db.Exec("ALTER TABLE events ENABLE TRIGGER ALL")
		}
		servicetest.Is(t, list(), 1, "events before migrate: nothing has said that the list changed")
		_, stderr := p.Succeeds("migrate")
		servicetest.Contains(t, stderr, "lists would go stale")
		servicetest.Eventually(t, "the list shows what was restored", func() bool { return list() == 2 })
		db.Exec(strings.Replace(insert, servicetest.IDOf(9), servicetest.IDOf(10), 1) + " WHERE name = 'restored'")
		servicetest.Eventually(t, "marks are left again", func() bool { return list() == 3 })
	})
}

// Logical replication of all tables stands in the way of no UPDATE: each table has a key.
func TestTablesHaveKeys(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	servicetest.Is(t, db.Count("pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)"), 0, "tables have no primary key")
	db.Exec("CREATE PUBLICATION everything FOR ALL TABLES")
	servicetest.Is(t, db.Exec("UPDATE compatibility SET oldest = oldest"), 1, "rows")
}

// A file that the URL names and that is not there is told with its path.
func TestMissingCertificateFile(t *testing.T) {
	t.Parallel()
	for _, parameter := range []string{"sslrootcert", "sslcert=x.pem&sslkey"} {
		p := servicetest.NewProgram(t, fmt.Sprintf("DATABASE_URL=postgres://u:s3cr3t@127.0.0.1:1/d?sslmode=verify-full&%s=/nowhere/ca.pem", parameter))
		servicetest.Finds(t, p, "fault", "^DATABASE_URL: .*open /nowhere/ca.pem: no such file or directory$")
		servicetest.Lacks(t, p.Fails("/nowhere/ca.pem", "serve"), "s3cr3t")
	}
}
