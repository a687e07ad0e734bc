// Package copydb copies a whole database, as it was at one moment, into a new SQLite file or an empty PostgreSQL database.
//
// It only reads the source, to which others may write meanwhile. The target shows all rows or none: a file has another name until it is
// on disk, and a PostgreSQL database is filled in one transaction. It never replaces anything.
//
// All pairs take one road. A row is []any, whose values are the same from either database:
//
//	source ──each──▶ []any ──write──▶ target ──finish──▶ marks, checks
//	   └───────────── compare: both are read again ─────────┘  ──▶ commit: the copy shows
//
// The columns and their types are those of package schema. Indexes and constraints are there while rows are written. Only from a file to a
// file SQLite copies its own pages instead (vacuum). Compare makes the same checksum of both sides before the copy shows.
package copydb
