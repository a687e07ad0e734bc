package schema

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// Database is what migrations and checks of the schema need to know about one of the two databases.
type Database struct {
	// Name is also that of its folder below migrations.
	Name  string
	Goose goose.Dialect
	// Settings are statements with which each migration begins.
	Settings string
	// OldQuery selects true in a database of a version that cannot be migrated.
	OldQuery string
	// HasTableQuery selects whether there is a table; %s stands for its name.
	HasTableQuery string
	// TriggersQuery selects how many triggers mark changes. There must be Triggers of them.
	TriggersQuery string
	Triggers      int
}

// SQLite and Postgres are the two databases.
var (
	SQLite = Database{
		Name:          "sqlite",
		Goose:         goose.DialectSQLite3,
		OldQuery:      "SELECT count(*) > 0 AND max(name = 'skeleton') = 0 FROM pragma_table_info('users')",
		HasTableQuery: "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = '%s'",
		TriggersQuery: "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('events', 'rsvps') AND name LIKE 'changes\\_%' ESCAPE '\\'",
		Triggers:      8,
	}
	Postgres = Database{
		Name:     "postgres",
		Goose:    goose.DialectPostgres,
		Settings: NoLimits + ";\nSET LOCAL lock_timeout = '200ms';\n",
		OldQuery: `SELECT count(*) > 0 AND NOT bool_or(attname = 'skeleton') FROM pg_attribute
			WHERE attrelid = to_regclass('users') AND attnum > 0`, // a view of information_schema takes 5 ms to plan
		HasTableQuery: "SELECT to_regclass('%s') IS NOT NULL",
		TriggersQuery: `SELECT count(*) FROM pg_trigger WHERE tgrelid IN (to_regclass('events'), to_regclass('rsvps'))
			AND tgname LIKE 'changes\_%' AND tgenabled = 'A'`,
		Triggers: 9,
	}
)

// NoLimits is a statement that lifts the time limits that a role or a database of PostgreSQL may have, for the
// rest of a transaction. A copy may take hours; a migration that such a limit ends would begin anew for ever, and
// take its locks each time. Settings puts a limit of ours on waiting for locks, because all statements that come behind a waiting
// migration wait with it.
const NoLimits = `SELECT set_config(name, '0', true) FROM pg_settings
	WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`

// Migrations are the migrations of the database.
func (d Database) Migrations() fs.FS {
	folder, _ := fs.Sub(migrations, "migrations/"+d.Name) // fails for a malformed path only
	return folder
}

// Newest is the number of this program's last migration, the same for both databases.
func Newest() (newest int64) {
	files, _ := fs.Glob(migrations, "migrations/postgres/*.sql") // fails for a malformed pattern only
	for _, file := range files {
		version, _ := goose.NumericComponent(file) // goose has refused other names before
		newest = max(newest, version)
	}
	return newest
}

// VersionQuery selects the version of a schema from the table that goose keeps.
const VersionQuery = "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied"

// Value runs a query for one value.
type Value func(ctx context.Context, into any, query string, args ...any) error

// Version reads the version of a database's schema, 0 if there is none.
func (d Database) Version(ctx context.Context, value Value) (version int64, err error) {
	var made bool
	if err := value(ctx, &made, fmt.Sprintf(d.HasTableQuery, "goose_db_version")); err != nil || !made {
		return 0, err
	}
	err = value(ctx, &version, VersionQuery)
	return version, err
}

// Columns are the tables that are copied, with their columns. Tests compare them with the migrations.
var Columns = map[string]string{
	"compatibility":      "oldest",
	"users":              "number, id, username, created_at, issuer, subject, folded, skeleton, blocked_at",
	"blocked_identities": "hash, blocked_at",
	"sessions":           "id, user_id, handle_hash, created_at, device, network, provider_sid, revoked_at, refreshed_at, expires_at, token_hash, spent",
	"events":             "number, id, world_id, creator_id, name, description, scheduled_at, created_at, request_hash",
	"rsvps":              "event_number, created_at, user_number, username",
}

// Table is a table of the schema. All of its columns are copied.
type Table struct {
	Name string
	// Key is the order in which SQLite keeps the rows. Writing them in this order is quickest there.
	Key string
	// List is an order that the rows have in both databases. It is the one in which lists show them.
	List string
	// where is SQL behind the name that leaves out rows of removed events.
	where string
}

// From is SQL to stand after FROM: the rows that are copied and counted.
func (t Table) From() string { return t.Name + t.where }

// Copied are all tables of the schema. A table stands behind those that it refers to.
var Copied = []Table{
	{"users", "number", "number", ""},
	{"blocked_identities", "hash", "hash", ""},
	{"sessions", "id", "id", ""},
	{"events", "number", "world_id, scheduled_at, id", " WHERE world_id <> ''"},
	{"rsvps", "user_number, event_number", "event_number, created_at, user_number", " WHERE event_number NOT IN (SELECT number FROM events WHERE world_id = '')"},
}

// CountRows counts the rows of each table.
func CountRows(ctx context.Context, value Value) (map[string]int64, error) {
	rows := make(map[string]int64)
	for _, t := range Copied {
		var n int64
		if err := value(ctx, &n, "SELECT count(*) FROM "+t.From()); err != nil {
			return nil, err
		}
		rows[t.Name] = n
	}
	return rows, nil
}

func CopiedNames() (names []string) {
	for _, t := range Copied {
		names = append(names, t.Name)
	}
	return names
}

// MigrationLock is the advisory lock that an instance holds while it migrates.
const MigrationLock = 0x776f726c64 // "world"

// CopyLock is the advisory lock of a transaction that fills a database.
const CopyLock = MigrationLock + 1

// ChangesLock is the advisory lock of an instance that prunes marks.
const ChangesLock = MigrationLock + 2

// SweepLock is the advisory lock of an instance that deletes removed events.
const SweepLock = MigrationLock + 3
