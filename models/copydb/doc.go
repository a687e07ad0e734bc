// Package copydb copies a whole database, as it was at one moment, into a new SQLite file or an empty PostgreSQL database.
//
// The source may be written to meanwhile, and is only read. The target shows all rows or none: a file has another name until it is on
// disk, and a database in PostgreSQL is filled in one transaction. It never replaces anything.
//
// Four pairs come together from two sources and two targets. A row passes as a copyRow, in PostgreSQL's binary form, whatever it comes from
// and goes to:
//
//	source ──read──▶ copyRow ──fill──▶ target ──finish──▶ indexes, checks
//	   └───────────── compare: both are read again ─────────┘  ──▶ commit: the copy shows
//
// From a file to a file SQLite copies pages instead. Compare takes the same sum of both sides before the copy shows.
package copydb
