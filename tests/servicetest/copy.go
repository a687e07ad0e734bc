package servicetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// EmptyDatabases makes one of each kind that does not exist yet, or is empty.
var EmptyDatabases = map[string]func(testing.TB) *Database{"sqlite": EmptySQLite, "postgres": EmptyPostgres}

// EachCopy runs test in parallel for copies from each kind of database to each. The first is migrated, the second empty.
func EachCopy(t *testing.T, test func(t *testing.T, from, to *Database)) {
	t.Parallel()
	for from, makeFrom := range map[string]func(testing.TB) *Database{"sqlite": SQLite, "postgres": Postgres} {
		for to, makeTo := range EmptyDatabases {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				test(t, makeFrom(t), makeTo(t))
			})
		}
	}
}

// Copied is what `worldevents copy` prints.
type Copied struct {
	From, To, Checksum string
	Rows               map[string]int
}

// MustCopy copies to a URL, and returns what was printed on stdout and stderr.
func (p *Program) MustCopy(to string) (c Copied, words string) {
	p.tb.Helper()
	stdout, stderr, status := p.Run("copy", "--to", to)
	if status != 0 || json.Unmarshal([]byte(stdout), &c) != nil {
		p.tb.Fatalf("copy: %d %s %s", status, stdout, stderr)
	}
	return c, stderr
}

// File is the file of a database in SQLite.
func (db *Database) File() string { return strings.TrimPrefix(db.URL, "sqlite:") }

// CopiedTables are those whose rows are copied.
var CopiedTables = []string{"users", "blocked_identities", "sessions", "events", "rsvps"}

// Counts are the rows of CopiedTables; nil where there are no tables.
func (db *Database) Counts() map[string]int {
	n := make(map[string]int)
	for _, table := range CopiedTables {
		if db.Dialect == "postgres" && db.Count("pg_tables WHERE tablename = ?", table) == 0 ||
			db.Dialect == "sqlite" && db.Count("sqlite_schema WHERE name = ?", table) == 0 {
			return nil
		}
		n[table] = db.Count(table)
	}
	return n
}

// Seed writes so many users with sessions, and events in 1000 worlds with RSVPs, behind the service's back.
func Seed(db *Database, users, events, rsvps int) {
	id := func(kind int) string { return db.idOf(kind, "i") }
	hash := "sha256(CAST(CAST(i AS text) AS bytea))"
	spent := "CAST('' AS bytea)"
	if db.Dialect == "sqlite" {
		hash, spent = "randomblob(32)", "x''"
	}
	db.Exec("INSERT INTO users (id, username, created_at, folded, skeleton) " + numbers(users) +
		"SELECT " + id(1) + ", 'user ' || CAST(i AS text), " + moment + ", NULL, NULL FROM n")
	db.Exec("INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, refreshed_at, expires_at, token_hash, spent) " + numbers(users) +
		"SELECT " + id(2) + ", " + id(1) + ", " + hash + ", " + moment + ", 'Firefox on Linux', '192.0.2.0/24', " + moment + ", " + moment + ", " + hash + ", " + spent + " FROM n")
	db.Exec("INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at) " + numbers(events) +
		"SELECT " + id(3) + ", 'world ' || CAST(i % 1000 AS text), NULL, 'Event ' || CAST(i AS text), 'Bring a coat, a lamp and something to eat.', " + moment + ", " + moment + " FROM n")
	each := rsvps / events
	db.Exec(fmt.Sprintf("INSERT INTO rsvps (event_number, created_at, user_number, username) "+numbers(each)+
		`SELECT e.number, %[2]s, u.number, u.username FROM events e, n, users u WHERE u.number = 1 + (e.number * 7919 + n.i) %% %[1]d`, users, moment))
}
