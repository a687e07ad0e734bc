package models

import (
	"database/sql"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/postgres"
)

// dialect is all that differs between the databases. Statements are otherwise the same.
type dialect struct {
	// name of the database, of its folder below migrations, and of its pools in metrics.
	name  string
	goose goose.Dialect
	// server is nil for a file.
	server *postgres.Server
	// isFile means that the database is a file, and not a server that may be away.
	isFile bool
	// writableQuery selects true when the database can be written to.
	writableQuery string
	// probe writes something and takes it back; nil where errSick is not known.
	probe func(tx *gorm.DB) error
	// oldSchemaQuery selects true in a database of a version that cannot be carried along.
	oldSchemaQuery string
	// triggersQuery selects how many triggers mark changes, which must be triggers.
	triggersQuery string
	triggers      int
	// hasTableQuery selects whether there is a table of the name that is its parameter.
	hasTableQuery string
	// migrationSettings are statements that each migration begins with.
	migrationSettings string
	// connect prepares a pool of connections. It makes none yet.
	connect func() (*sql.DB, error)
	// gorm is how GORM uses such a pool.
	gorm func(db *sql.DB) gorm.Dialector
	// check fails, in words for the operator, on a server that the service cannot work with; nil where there is none.
	check func(tx *gorm.DB) error
	// joinUsernames aggregates usernames into one text, with line feeds between them.
	joinUsernames string
	// blob is the type of bytes, and time that of a time which is given as text.
	blob, time string
	// usernames is the SQL for up to largeRSVPs+1 usernames of event e in joining order, separated by line feeds; NULL if
	// there are none. The extra one marks the event as large.
	usernames string
	// moments is the SQL about what a statement saw.
	moments moments
	// anyOf is the SQL after a column that tests membership in a parameter of type ids.
	anyOf string
	// randomID is the SQL of an id that nobody guesses, another one for each row.
	randomID string
	// callers is the SQL for the rows of a parameter of type callers, each with n, from 1 on, user_id and session_id.
	callers string
	// parameters spells the parameters of a query for rows, which are question marks.
	parameters func(query string) string
	// rows runs a query of a list's batch on the connection pool of tx itself, past GORM, and calls each with every row,
	// until it wants no more. The query selects an id, a time, and then the texts of a listRow.
	rows func(tx *gorm.DB, query string, args []any, each func(*listRow) (more bool)) error
	// snapshot calls fn, whose queries all see the database as it is at the first of them.
	snapshot func(tx *gorm.DB, fn func(rows rowsFunc) error) error
	// create is what stores an event and its creator's RSVP, both or neither; neither if the caller is not active.
	create func(s *Store, caller Caller, e Event) []batch.Statement
	// withMigrationLock runs fn while no other process does the same.
	withMigrationLock func(tx *gorm.DB, fn func() error) error
}
