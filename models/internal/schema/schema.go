package schema

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed migrations triggers
var files embed.FS

// Database is one of the two databases for migrations and checks of the schema.
type Database struct {
	Name          string // also of its files below migrations and triggers
	Goose         goose.Dialect
	Settings      string // statements at the start of each migration and each fix
	HasTableQuery string // selects whether there is a table; %s is its name
	Fixing        string // statements of a fix behind Settings
	// missing selects tables and columns that are not there of the rows of VALUES that %s stands for: one column of each table.
	missing string
	// unknown selects the columns of a table, the first %s, that are not in a list, whose text between the quotes is the other %s.
	unknown string
	// otherOwner selects the owner of the tables, "" if this role has its rights.
	otherOwner       string
	migrated, served []rule // rules before a migration, and after it
}

var (
	SQLite = Database{
		Name:          "sqlite",
		Goose:         goose.DialectSQLite3,
		HasTableQuery: "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = '%s'",
		missing: `SELECT coalesce(group_concat(text, ', '), '') FROM (SELECT 'table ' || column1 || ': no column ' || min(column2) AS text FROM (VALUES %s)
			WHERE NOT EXISTS (SELECT 1 FROM pragma_table_info(column1) WHERE name = column2) GROUP BY column1)`,
		unknown:    "SELECT coalesce(group_concat(name, ', '), '') FROM pragma_table_info('%s') WHERE name NOT IN ('%s')",
		otherOwner: "SELECT ''",
		served:     sqliteServed,
	}
	Postgres = Database{
		Name:          "postgres",
		Goose:         goose.DialectPostgres,
		Settings:      NoLimits + ";\nSET LOCAL lock_timeout = '200ms';\n",
		HasTableQuery: "SELECT to_regclass('%s') IS NOT NULL",
		// A fix works for the owner of the tables, in their schema.
		Fixing: `SELECT set_config('role', pg_get_userbyid(relowner), true), set_config('search_path', quote_ident(nspname), true)
			FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = to_regclass('events');
`,
		missing: `SELECT coalesce(string_agg(text, ', '), '') FROM (SELECT format('table %%s: no column %%s', tab, min(name)) AS text FROM (VALUES %s) wanted (tab, name)
			WHERE NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(tab) AND attname = name AND NOT attisdropped) GROUP BY tab) missing`,
		unknown: `SELECT coalesce(string_agg(attname, ', '), '') FROM pg_attribute
			WHERE attrelid = to_regclass('%s') AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname NOT IN ('%s')`,
		otherOwner: "SELECT CASE WHEN pg_has_role(relowner, 'MEMBER') THEN '' ELSE CAST(pg_get_userbyid(relowner) AS text) END FROM pg_class WHERE oid = to_regclass('events')",
		migrated:   postgresMigrated,
		served:     postgresServed,
	}
)

// NoLimits lifts the time limits of a role or a database of PostgreSQL for the rest of a transaction. A copy may take hours; a migration
// that such a limit ends would begin anew for ever, and take its locks each time. Settings limits waiting for locks, because all statements
// behind a waiting migration wait with it.
const NoLimits = `SELECT set_config(name, '0', true) FROM pg_settings
	WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`

func (d Database) Migrations() fs.FS {
	folder, _ := fs.Sub(files, "migrations/"+d.Name) // fails for a malformed path only
	return folder
}

// Triggers are the statements that make the missing triggers of a database.
func Triggers(name string) string {
	text, _ := files.ReadFile("triggers/" + name + ".sql") // is there
	return string(text)
}

// Newest is the number of this program's last migration, the same for both databases.
func Newest() (newest int64) {
	all, _ := fs.Glob(files, "migrations/postgres/*.sql") // fails for a malformed pattern only
	for _, file := range all {
		version, _ := goose.NumericComponent(file) // goose has refused other names before
		newest = max(newest, version)
	}
	return newest
}

// VersionQuery selects the version of a schema from the table of goose.
const VersionQuery = "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied"

type Value func(ctx context.Context, into any, query string, args ...any) error

// Version reads the version of a database's schema, 0 without one.
func (d Database) Version(ctx context.Context, value Value) (version int64, err error) {
	var made bool
	if err := value(ctx, &made, fmt.Sprintf(d.HasTableQuery, "goose_db_version")); err != nil || !made {
		return 0, err
	}
	err = value(ctx, &version, VersionQuery)
	return version, err
}

// Columns are the tables that are read and written, with their columns. Tests compare them with the migrations.
var Columns = map[string]string{
	"compatibility":      "oldest",
	"users":              "id, number, username, created_at, issuer, subject, folded, skeleton, blocked_at",
	"blocked_identities": "hash, blocked_at",
	"sessions":           "id, user_id, handle_hash, created_at, device, network, provider_sid, revoked_at, refreshed_at, expires_at, token_hash, spent",
	"events":             "id, number, world_id, creator_id, name, description, scheduled_at, created_at, request_hash",
	"rsvps":              "event_number, created_at, user_number, username",
	"changes":            "world_id",
	"incarnation":        "horizon, next, next_since",
}

// Table is a table of the schema. Its columns in Columns are copied.
type Table struct {
	Name  string
	Types string // PostgreSQL's types of the columns, in their order
	List  string // the order of the rows in lists, the same in both databases
	where string // SQL behind the name that leaves out rows of removed events
}

// From is SQL for FROM: the rows that are copied and counted.
func (t Table) From() string { return t.Name + t.where }

// Copied are all tables of the schema. A table comes after those that it refers to.
var Copied = []Table{
	{"users", "uuid, integer, text, timestamptz, text, text, text, text, timestamptz", "number", ""},
	{"blocked_identities", "bytea, timestamptz", "hash", ""},
	{"sessions", "uuid, uuid, bytea, timestamptz, text, text, text, timestamptz, timestamptz, timestamptz, bytea, bytea", "id", ""},
	{"events", "uuid, bigint, text, uuid, text, text, timestamptz, timestamptz, bytea", "world_id, scheduled_at, id", " WHERE world_id <> ''"},
	{"rsvps", "bigint, timestamptz, integer, text", "event_number, created_at, user_number",
		" WHERE event_number NOT IN (SELECT number FROM events WHERE world_id = '')"},
}

// UnknownColumns returns the columns of a table that this program does not copy. Generated ones need no copy.
func (d Database) UnknownColumns(ctx context.Context, value Value, t Table) (names string, err error) {
	err = value(ctx, &names, fmt.Sprintf(d.unknown, t.Name, strings.ReplaceAll(Columns[t.Name], ", ", "', '")))
	return names, err
}

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

// LockedBy selects who keeps others from reading tables, or waits for such a lock, in words for the operator; "" for nobody.
const LockedBy = `SELECT coalesce('waiting for ' || string_agg(DISTINCT CASE WHEN pid IS NULL THEN 'a prepared transaction' ELSE format('the process %s of the role %s (%s)', pid, usename, application_name) END
		|| CASE WHEN granted THEN ', which has ' ELSE ', which waits to have ' END || CAST(relation AS regclass) || ' locked', '; '), '')
	FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
	WHERE mode = 'AccessExclusiveLock' AND relation IN (to_regclass('users'), to_regclass('blocked_identities'), to_regclass('sessions'), to_regclass('events'),
		to_regclass('rsvps'), to_regclass('changes'), to_regclass('incarnation')) AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// Advisory locks of an instance that migrates, prunes marks, or deletes removed events.
const (
	MigrationLock = 0x776f726c64 // "world"
	ChangesLock   = MigrationLock + 2
	SweepLock     = MigrationLock + 3
)
