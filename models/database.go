package models

import "gorm.io/gorm"

// database has the code that differs between SQLite and PostgreSQL. dialect has the SQL that differs.
type database interface {
	// newPool prepares a pool of n connections, with GORM over it. It connects to nothing yet.
	newPool(n int) (pool, error)
	// rows runs the query of a list without GORM, on the connection pool of tx, and calls each with every row until it wants no more. The
	// columns are the fields of ListedEvent, in their order.
	rows(tx *gorm.DB, query string, args []any, each func(*ListedEvent) (more bool)) error
	// migrate runs fn while no other process migrates. It returns an error in words for the operator for a server that does not do.
	migrate(tx *gorm.DB, fn func() error) error
	// note gets the error of each call, which may concern the next calls: the server is lost, or the disk is full.
	note(err error)
	// ready returns an error unless the database can be written to.
	ready(tx *gorm.DB) error
}

// dialect is the SQL that differs between the databases.
type dialect struct {
	blob string // the type of bytes
	// usernames are those of event e in joining order, separated by line feeds; NULL without any, and tooMany beyond MaxUsernames bytes.
	usernames string
	randomID  string // an id that nobody can guess, a new one for each row
	anyOf     string // after a column: tests whether a parameter of type ids has its value
	callers   string // the rows of a parameter of type callers: n from 1 on, user_id and session_id
	questions string // the rows of a parameter of questions: n from 1 on, and the texts saw and world
	moments   moments
}
