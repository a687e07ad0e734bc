package servicetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/models"
)

// Database is a database of one test, gone when the test ends.
type Database struct {
	// Dialect is sqlite or postgres.
	Dialect string
	// URL is what DATABASE_URL would say.
	URL string
	// DB looks into it behind the service's back.
	DB *sql.DB

	tb testing.TB
}

// SQLite makes a migrated database in a file.
func SQLite(tb testing.TB) *Database {
	tb.Helper()
	db := EmptySQLite(tb)
	writeTemplate(tb, strings.TrimPrefix(db.URL, "sqlite:"))
	return db
}

// writeTemplate makes a migrated file, which is migrated once for all tests of a process.
func writeTemplate(tb testing.TB, path string) {
	tb.Helper()
	NoError(tb, os.WriteFile(path, Must(migratedFile())(tb), 0o600))
}

// EmptySQLite names a file that does not exist yet.
func EmptySQLite(tb testing.TB) *Database {
	tb.Helper()
	return OpenSQLite(tb, filepath.Join(tb.TempDir(), "test.db"))
}

// OpenSQLite looks into a file, which need not exist yet.
func OpenSQLite(tb testing.TB, path string) *Database {
	tb.Helper()
	return open(tb, "sqlite", "sqlite", "sqlite:"+path, "file:"+path+"?_pragma=busy_timeout(20000)&_pragma=foreign_keys(1)&_time_format=sqlite&_texttotime=1")
}

var migratedFile = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "worldevents")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "template.db")
	if err := migrate("sqlite:" + path); err != nil {
		return nil, err
	}
	return os.ReadFile(path) // whole: closing has folded the write-ahead log into it
})

func migrate(url string) error {
	store, err := models.Open(models.Options{URL: url, MaxConns: 2, Timeout: time.Minute, MaxWait: 20 * time.Second})
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Migrate(context.Background())
}

func open(tb testing.TB, dialect, driver, url, dsn string) *Database {
	tb.Helper()
	db := Must(sql.Open(driver, dsn))(tb)
	db.SetMaxOpenConns(2)
	tb.Cleanup(func() { db.Close() })
	return &Database{Dialect: dialect, URL: url, DB: db, tb: tb}
}

// Exec runs a statement with ? for parameters and returns the number of rows that it touched.
func (d *Database) Exec(query string, args ...any) int64 {
	d.tb.Helper()
	n, err := d.TryExec(query, args...)
	if err != nil {
		d.tb.Fatalf("%s: %v", query, err)
	}
	return n
}

// TryExec is Exec for statements that may fail.
func (d *Database) TryExec(query string, args ...any) (int64, error) {
	res, err := d.DB.Exec(d.rebind(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Read scans the one row of a query with ? for parameters.
func (d *Database) Read(query string, args []any, dest ...any) {
	d.tb.Helper()
	if err := d.DB.QueryRow(d.rebind(query), args...).Scan(dest...); err != nil {
		d.tb.Fatalf("%s: %v", query, err)
	}
}

// Count counts rows: Count("events WHERE world_id = ?", world).
func (d *Database) Count(from string, args ...any) (n int) {
	d.tb.Helper()
	d.Read("SELECT count(*) FROM "+from, args, &n)
	return n
}

// rebind writes parameters as PostgreSQL wants them.
func (d *Database) rebind(query string) string {
	if d.Dialect != "postgres" {
		return query
	}
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

// With is the same PostgreSQL database by a URL with one more parameter.
func (d *Database) With(parameter string) *Database {
	other := *d
	other.URL += map[bool]string{true: "&", false: "?"}[strings.Contains(d.URL, "?")] + parameter
	return &other
}

// Stranger is the same PostgreSQL database for a new role, which may do there what anybody may.
func (d *Database) Stranger(role string) *Database {
	d.tb.Helper()
	role += "_" + d.name() // roles are the server's
	d.Exec("CREATE ROLE " + role + " LOGIN")
	d.tb.Cleanup(func() {
		d.TryExec("DROP OWNED BY " + role)
		d.TryExec("DROP ROLE " + role)
	})
	u := Must(url.Parse(d.URL))(d.tb)
	u.User = url.User(role)
	return open(d.tb, "postgres", "pgx", u.String(), u.String())
}

// As is the same PostgreSQL database for a role that owns nothing there, and may do what a role of the service has to.
func (d *Database) As(role string) *Database {
	d.tb.Helper()
	other := d.Stranger(role)
	d.Exec("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role + "_" + d.name())
	return other
}

// Snapshot is a copy of a PostgreSQL database.
type Snapshot struct{ name string }

// Snapshot copies a PostgreSQL database to which nobody is connected.
func (d *Database) Snapshot() Snapshot {
	d.tb.Helper()
	d.DB.SetMaxIdleConns(0) // nor are we
	name := d.name()
	s := Snapshot{name + "_snapshot"}
	d.admin("CREATE DATABASE " + s.name + " TEMPLATE " + name)
	d.tb.Cleanup(func() { cluster.admin.Exec("DROP DATABASE IF EXISTS " + s.name + " WITH (FORCE)") })
	return s
}

// Restore puts a copy in the place of the database, to which nobody is connected.
func (d *Database) Restore(s Snapshot) {
	d.tb.Helper()
	d.admin("DROP DATABASE " + d.name())
	d.admin("CREATE DATABASE " + d.name() + " TEMPLATE " + s.name)
}

func (d *Database) name() string {
	u := Must(url.Parse(d.URL))(d.tb)
	return strings.TrimPrefix(u.Path, "/")
}

// admin runs a statement that needs the database to itself: connections that were just closed, or that a pooler keeps, end.
func (d *Database) admin(statement string) {
	d.tb.Helper()
	if err := poll(20*time.Second, func() error {
		cluster.admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", d.name())
		_, err := cluster.admin.Exec(statement)
		return err
	}); err != nil {
		d.tb.Fatalf("%s: %v", statement, err)
	}
}

// Lock keeps everybody else from a table of PostgreSQL, and from changing any of SQLite, until release is called.
func Lock(t *testing.T, db *Database, table string) (release func()) {
	t.Helper()
	conn := Must(db.DB.Conn(context.Background()))(t)
	statements := []string{"BEGIN IMMEDIATE"}
	if db.Dialect == "postgres" {
		statements = []string{"BEGIN", "LOCK TABLE " + table}
	}
	for _, statement := range statements {
		Must(conn.ExecContext(context.Background(), statement))(t)
	}
	return func() {
		conn.ExecContext(context.Background(), "ROLLBACK")
		conn.Close()
	}
}

// AwaitListeners waits until n instances listen for the notifications of others.
func (d *Database) AwaitListeners(t *testing.T, n int) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%d instances listen", n), func() bool {
		return d.Count("pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN %'") == n
	})
}

// AwaitLock waits until somebody waits for a lock of PostgreSQL: writes that come later then share no transaction with that one. On SQLite
// they never would.
func (d *Database) AwaitLock(t *testing.T) {
	t.Helper()
	if d.Dialect == "postgres" {
		Eventually(t, "somebody waits for a lock", func() bool {
			return d.Count("pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") > 0
		})
	}
}

// BeginTx runs statements in a transaction that is rolled back when the test ends.
func BeginTx(t *testing.T, db *Database, statements ...string) *sql.Tx {
	t.Helper()
	tx := Must(db.DB.BeginTx(context.Background(), nil))(t)
	t.Cleanup(func() { tx.Rollback() })
	for _, statement := range statements {
		Must(tx.Exec(statement))(t)
	}
	return tx
}

// CommitUnder runs fn to its end, and commits once fn waits for a lock of tx on a connection that is as old as least.
func CommitUnder(t *testing.T, db *Database, tx *sql.Tx, least time.Duration, fn func()) {
	t.Helper()
	var wait sync.WaitGroup
	wait.Go(fn)
	Eventually(t, "somebody waits for the lock", func() bool {
		return db.Count("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND now() - backend_start >= make_interval(secs => ?)", least.Seconds()) > 0
	})
	NoError(t, tx.Commit())
	wait.Wait()
}
