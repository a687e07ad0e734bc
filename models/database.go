package models

import "gorm.io/gorm"

// database is what SQLite and PostgreSQL do differently by code. The SQL that differs is a dialect.
type database interface {
	// newPool prepares a pool of n connections, with GORM over it. It connects to nothing yet.
	newPool(n int) (pool, error)
	// rows runs the query of a list on the connection pool of tx itself, without GORM, and calls each with every row until it wants no
	// more. The query selects what a ListedEvent has, in that order.
	rows(tx *gorm.DB, query string, args []any, each func(*ListedEvent) (more bool)) error
	// migrate runs fn while no other process migrates. If the service cannot work with this server, it returns
	// an error in words for the operator.
	migrate(tx *gorm.DB, fn func() error) error
	// note is told of the error of each call, which may say something about the next calls: the server may be
	// lost, or the disk full.
	note(err error)
	// ready returns an error unless the database can be written to.
	ready(tx *gorm.DB) error
}

// dialect is the SQL that differs between the databases. All other statements are the same for both.
type dialect struct {
	// blob is the type of bytes.
	blob string
	// usernames are the users of event e, in joining order, with line feeds between them; NULL if nobody has joined, and tooMany if they
	// have more than MaxUsernames bytes.
	usernames string
	// randomID is an id that nobody can guess, another one for each row.
	randomID string
	// anyOf comes after a column, and tests whether a parameter of type ids has its value.
	anyOf string
	// callers are the rows of a parameter of type callers: each with n, counted from 1, user_id and session_id.
	callers string
	// questions are the rows of a parameter of questions: each with n, counted from 1, and the texts saw and world.
	questions string
	// moments reads and compares Moments.
	moments moments
}
