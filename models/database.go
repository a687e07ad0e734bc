package models

import (
	"fmt"

	"gorm.io/gorm"
)

// database is what SQLite and PostgreSQL do each in a way of its own. All else in which they differ is SQL: a dialect.
type database interface {
	// newPool prepares a pool of n connections, with GORM over it. It makes none yet.
	newPool(n int) (pool, error)
	// rows runs a query of a list's batch on the connection pool of tx itself, past GORM, and calls each with every row,
	// until it wants no more. The query selects an id, a time, and then the texts of a listRow.
	rows(tx *gorm.DB, query string, args []any, each func(*listRow) (more bool)) error
	// snapshot calls fn, whose queries all see the database as it is at the first of them.
	snapshot(tx *gorm.DB, fn func(rows rowsFunc) error) error
	// migrate runs fn while no other process does the same. On a server that the service cannot work with it fails, in words for
	// the operator.
	migrate(tx *gorm.DB, fn func() error) error
	// note is told of each error of a call: some say what the next calls have to expect.
	note(err error)
	// ready returns an error unless the database can be written to.
	ready(tx *gorm.DB) error
}

// dialect is the SQL that differs between the databases. Statements are otherwise the same.
type dialect struct {
	// blob is the type of bytes, and time that of a time which is given as text.
	blob, time string
	// joinUsernames aggregates usernames into one text, with line feeds between them.
	joinUsernames string
	// usernames are up to largeRSVPs+1 of event e, joined, in joining order; NULL if there are none. The extra one marks the event as
	// large.
	usernames string
	// randomID is an id that nobody guesses, another one for each row.
	randomID string
	// anyOf tests, after a column, membership in a parameter of type ids.
	anyOf string
	// callers are the rows of a parameter of type callers, each with n, from 1 on, user_id and session_id.
	callers string
	// moments are about what a statement saw.
	moments moments
}

// firstUsernames are a dialect's usernames. The inner LIMIT keeps the order, and a large event from being read whole.
func firstUsernames(join string) string {
	return fmt.Sprintf(`
		(SELECT %s FROM (
			SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number LIMIT %d
		) first)`, join, largeRSVPs+1)
}
