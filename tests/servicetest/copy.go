package servicetest

import (
	"encoding/json"
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
