package models

import (
	"embed"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// migrationFolder has the migrations of a database, sqlite or postgres.
func migrationFolder(database string) fs.FS {
	folder, _ := fs.Sub(migrations, "migrations/"+database) // fails for a malformed path only
	return folder
}

// newestSchema is the number of this program's last migration, the same for both databases.
func newestSchema() (newest int64) {
	files, _ := fs.Glob(migrations, "migrations/postgres/*.sql") // fails for a malformed pattern only
	for _, file := range files {
		version, _ := goose.NumericComponent(file) // goose has refused other names before
		newest = max(newest, version)
	}
	return newest
}

// schemaQuery selects the version of a schema from the table that goose keeps.
const schemaQuery = "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied"

// schemaTables are the tables that are copied, with their columns. Tests hold them to the migrations.
var schemaTables = map[string]string{
	"compatibility":      "oldest",
	"users":              "number, id, username, created_at, issuer, subject, folded, skeleton, blocked_at",
	"blocked_identities": "hash, blocked_at",
	"sessions":           "id, user_id, handle_hash, created_at, device, network, provider_sid, revoked_at, refreshed_at, expires_at, token_hash, spent",
	"events":             "number, id, world_id, creator_id, name, description, scheduled_at, created_at",
	"rsvps":              "event_number, created_at, user_number, username",
}

// copiedTable is a table of the schema. All of its columns are copied.
type copiedTable struct {
	name string
	// key is the order in which SQLite keeps the rows, and which is quickest to write there.
	key string
	// list is an order that the rows of both databases have, in which lists show them.
	list string
	// where is the SQL behind the name that leaves out what is removed.
	where string
}

// from is the SQL, after FROM, for the rows that are copied, and counted.
func (t copiedTable) from() string { return t.name + t.where }

// copiedTables are all tables of the schema, and those that others refer to come first.
var copiedTables = []copiedTable{
	{"users", "number", "number", ""},
	{"blocked_identities", "hash", "hash", ""},
	{"sessions", "id", "id", ""},
	{"events", "number", "world_id, scheduled_at, id", " WHERE world_id <> ''"},
	{"rsvps", "user_number, event_number", "event_number, created_at, user_number", " WHERE event_number NOT IN (SELECT number FROM events WHERE world_id = '')"},
}

func tableNames() (names []string) {
	for _, t := range copiedTables {
		names = append(names, t.name)
	}
	return names
}

// migrationLock is the advisory lock that one migrating instance holds.
const migrationLock = 0x776f726c64 // "world"

// copyLock is the advisory lock of a transaction that fills a database.
const copyLock = migrationLock + 1

// changesLock is the advisory lock of whoever prunes marks.
const changesLock = migrationLock + 2

// sweepLock is the advisory lock of whoever deletes removed events.
const sweepLock = migrationLock + 3
