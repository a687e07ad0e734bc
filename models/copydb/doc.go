// Package copydb copies a whole database, as it was at one moment, into a new SQLite file or an empty PostgreSQL database.
//
// It only reads the source, which others may write to meanwhile. The target shows all rows or none: a file has another name until it is on
// disk, and a PostgreSQL database is filled in one transaction. It never replaces anything.
//
// Columns are those of package schema. Indexes and constraints exist while rows are written. A row is []any, with the same types from both:
//
//	source ──each──▶ []any ──write──▶ target ──finish──▶ marks, checks
//	   └───────────── compare: both are read again ─────────┘  ──▶ commit: the copy shows
//
// Only from file to file SQLite copies its own pages instead (vacuum).
package copydb
