// Package postgres makes connections to a PostgreSQL server, or to the one of several that takes writes, and keeps those that lead to
// nobody from costing callers their time.
//
// It knows no table, but for the rows that a shared write locks. Users and passwords may change while it runs. All that may take long, such
// as looking names up, connecting and pinging, has a part of the caller's time and no more.
//
// A Server has a pool and connections beside it. Each is made by a Connector, which asks one host, its current one. When that refuses or
// is suspect, it asks all hosts at once, and the first that takes writes becomes the current one:
//
//	              somebody waits, and the host says nothing to anybody
//	current host ─────────────────────────────────────────────────────▶ search ──▶ the same host, or another one
//
// A connection that is not used this moment may be suspect as well; checks decides that. Writes share transactions in pipelines. A write
// that meets a locked row leaves its transaction, and waits in the Lane of that row.
package postgres
