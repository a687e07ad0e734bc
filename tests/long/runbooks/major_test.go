package runbooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// move is a service on PostgreSQL that is to move to a newer one.
type move struct {
	*machine
	old, newer *servicetest.PostgresServer
	db         *servicetest.Database // of the old server
	current    string
	before     string // the list
}

// moving has a newer server, of the programs in the folder newer, if there is one.
func moving(t *testing.T, newer string) *move {
	t.Helper()
	old := servicetest.NewPostgresServer(t, "wal_level=logical", "fsync=off")
	m := &move{machine: serving(t, old), old: old, db: old.Database()}
	old.Exec("CREATE ROLE worldevents LOGIN CREATEDB REPLICATION")
	old.Exec("ALTER DATABASE worldevents OWNER TO worldevents")
	m.systemctl("stop worldevents")
	m.as("worldevents")
	m.settings("DATABASE_URL=postgres:///worldevents")
	m.p.MustRun("migrate")
	servicetest.Seed(m.db, 200, 100, 5000)
	m.start()
	if newer != "" {
		m.newer = servicetest.NewPostgresServerOf(t, newer, "fsync=off")
		m.newer.Exec("CREATE ROLE worldevents LOGIN CREATEDB")
		m.env = append(m.env, "NEW=postgres://"+m.newer.Addr)
	}
	host, port, _ := strings.Cut(old.Addr, ":")
	m.replacing("host=old.example.org port=5432 user", "host="+host+" port="+port+" user",
		"/etc/postgresql", filepath.Join(m.world, "postgresql"))
	m.current = m.p.Issue("alice")
	m.write()
	return m
}

// as has runbooks and the service sign in as a role.
func (m *move) as(role string) {
	m.env, m.p.Env = append(m.env, "PGUSER="+role), append(m.p.Env, "PGUSER="+role)
}

// write makes an event and joins it.
func (m *move) write() {
	m.t.Helper()
	m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, m.current)
	var id string
	m.db.Read("SELECT CAST(id AS text) FROM events ORDER BY number DESC LIMIT 1", nil, &id)
	m.service.Is(200, "POST", "/api/event/join/"+id, "", m.current)
	m.before = m.list(m.current)
}

// goesOn expects that the service is on the newer server with all that was there, that nobody is signed out, and that new users and events get
// numbers.
func (m *move) goesOn(db *servicetest.Database) {
	m.t.Helper()
	var version int
	db.Read("SELECT CAST(current_setting('server_version_num') AS int) / 10000", nil, &version)
	for _, table := range []string{"users", "blocked_identities", "sessions", "events", "rsvps"} {
		if was, is := m.db.Count(table), db.Count(table); was != is {
			m.t.Errorf("%s has %d rows on version %d, and had %d", table, is, version, was)
		}
	}
	servicetest.Is(m.t, m.list(m.current), m.before, "the list")
	was := db.Count("events")
	m.service.Is(200, "GET", servicetest.RefreshPath, "", m.current)
	m.service.Is(400, "GET", servicetest.RefreshPath, "", m.current)
	m.service.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, m.current)
	m.service.Is(200, "GET", servicetest.Plaza, "", m.p.Issue("somebody new"))
	servicetest.Is(m.t, db.Count("events"), was+1, "events in the newer server")
}

// moved is the new database, which .env names.
func (m *move) moved() *servicetest.Database {
	m.t.Helper()
	_, name, _ := strings.Cut(m.dotEnv(), "DATABASE_URL=postgres://"+m.newer.Addr+"/")
	name, _, _ = strings.Cut(name, "\n")
	if name == "" {
		m.t.Fatalf("it is not on the newer server: %s", m.dotEnv())
	}
	return m.newer.DatabaseNamed(name)
}

// failing has some steps of a runbook fail, one after the other: it must stop there, and be good to be pasted again.
func (m *move) failing(script string, steps ...string) {
	m.t.Helper()
	for _, step := range steps {
		m.fails(script, step, "")
	}
	m.run(script)
}

// Each way of the page leads to a newer PostgreSQL with everything, run exactly as it is printed.
func TestNewMajorVersion(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("TEST_NEWER_POSTGRES_BIN")
	if bin == "" {
		servicetest.Missing(t, "TEST_NEWER_POSTGRES_BIN is not set: make test-postgres has a newer PostgreSQL")
	}
	t.Run("copy", func(t *testing.T) {
		t.Parallel()
		m := moving(t, bin)
		m.failing(runbooks(t, "major-version", "Copy")[0], "systemctl 2")
		m.goesOn(m.moved())
	})
	// A table that is written anew meanwhile comes along whole.
	t.Run("dump", func(t *testing.T) {
		t.Parallel()
		m := moving(t, bin)
		script := runbooks(t, "major-version", "Dump and restore")[0]
		m.systemctl("stop worldevents") // which would wait for the table as well
		tx := servicetest.BeginTx(t, m.db, "ALTER TABLE rsvps ALTER COLUMN created_at TYPE timestamptz USING created_at + interval '0'")
		servicetest.CommitUnder(t, m.db, tx, time.Second/2, func() {
			if _, err := m.try(script, ""); err != nil {
				t.Error(err)
			}
		})
		m.goesOn(m.moved())
	})
	t.Run("logical replication", func(t *testing.T) {
		t.Parallel()
		m := moving(t, bin)
		scripts := runbooks(t, "major-version", "Logical replication")
		follow, cutOver := scripts[0], scripts[1]
		m.newer.Exec("ALTER ROLE worldevents SUPERUSER")
		m.failing(follow, "psql 4")
		m.fails(follow, "", "") // a second subscription replaces no first one
		name := strings.TrimSpace(m.read("new-database"))
		db := m.newer.DatabaseNamed(name[strings.LastIndex(name, "/")+1:])
		m.write()
		m.command("user rename 'user 1' 'user one'")
		m.command("user remove 'user 2'")
		servicetest.Eventually(t, "the tables are copied", func() bool { return db.Count("pg_subscription_rel WHERE srsubstate <> 'r'") == 0 })
		m.write()
		m.failing(cutOver, "grep 1", "systemctl 2")
		m.newer.Exec("ALTER ROLE worldevents NOSUPERUSER")
		servicetest.Is(t, m.db.Count("pg_replication_slots"), 0, "slots are left")
		m.goesOn(m.moved())
	})
	// A database that was made before 15 comes along with a schema in which everybody may create.
	t.Run("pg_upgrade", func(t *testing.T) {
		t.Parallel()
		m := moving(t, "")
		if _, err := os.Stat(filepath.Join(bin, "pg_upgrade")); err != nil {
			bin = m.old.Binaries() // npm's has no pg_upgrade, and that also moves a server to its own version
		}
		m.as("postgres")
		m.db.Exec("ALTER SCHEMA public OWNER TO postgres")
		m.db.Exec("GRANT CREATE ON SCHEMA public TO PUBLIC")
		m.upgrade = func() {
			m.db.DB.Close()
			m.old.Upgrade(bin)
			servicetest.NoError(t, os.MkdirAll(filepath.Join(m.world, "postgresql/18/main"), 0o700))
			m.db = m.old.Database()
		}
		m.failing(runbooks(t, "major-version", "pg_upgrade")[0], "grep 1")
		m.db.Exec("CREATE ROLE anybody")
		if m.db.Count("pg_namespace WHERE nspname = 'public' AND NOT has_schema_privilege('anybody', oid, 'CREATE') AND pg_get_userbyid(nspowner) = 'pg_database_owner'") != 1 {
			t.Error("the schema is as it was before")
		}
		m.goesOn(m.db)
	})
}
