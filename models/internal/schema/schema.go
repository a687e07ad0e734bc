package schema

import (
	"embed"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// Migrations has the migrations of a database, sqlite or postgres.
func Migrations(database string) fs.FS {
	folder, _ := fs.Sub(migrations, "migrations/"+database) // fails for a malformed path only
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

// Columns are the tables that are copied, with their columns. Tests hold them to the migrations.
var Columns = map[string]string{
	"compatibility":      "oldest",
	"users":              "number, id, username, created_at, issuer, subject, folded, skeleton, blocked_at",
	"blocked_identities": "hash, blocked_at",
	"sessions":           "id, user_id, handle_hash, created_at, device, network, provider_sid, revoked_at, refreshed_at, expires_at, token_hash, spent",
	"events":             "number, id, world_id, creator_id, name, description, scheduled_at, created_at",
	"rsvps":              "event_number, created_at, user_number, username",
}

// Table is a table of the schema. All of its columns are copied.
type Table struct {
	Name string
	// Key is the order in which SQLite keeps the rows, and which is quickest to write there.
	Key string
	// List is an order that the rows of both databases have, in which lists show them.
	List string
	// where is the SQL behind the name that leaves out what is removed.
	where string
}

// From is the SQL, after FROM, for the rows that are copied, and counted.
func (t Table) From() string { return t.Name + t.where }

// Copied are all tables of the schema, and those that others refer to come first.
var Copied = []Table{
	{"users", "number", "number", ""},
	{"blocked_identities", "hash", "hash", ""},
	{"sessions", "id", "id", ""},
	{"events", "number", "world_id, scheduled_at, id", " WHERE world_id <> ''"},
	{"rsvps", "user_number, event_number", "event_number, created_at, user_number", " WHERE event_number NOT IN (SELECT number FROM events WHERE world_id = '')"},
}

func CopiedNames() (names []string) {
	for _, t := range Copied {
		names = append(names, t.Name)
	}
	return names
}

// MigrationLock is the advisory lock that one migrating instance holds.
const MigrationLock = 0x776f726c64 // "world"

// CopyLock is the advisory lock of a transaction that fills a database.
const CopyLock = MigrationLock + 1

// ChangesLock is the advisory lock of whoever prunes marks.
const ChangesLock = MigrationLock + 2

// SweepLock is the advisory lock of whoever deletes removed events.
const SweepLock = MigrationLock + 3
