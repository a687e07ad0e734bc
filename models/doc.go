// Package models stores users, sessions, events and RSVPs in SQLite or PostgreSQL. The database decides races by one conditional UPDATE or
// one unique key, never by the memory of an instance.
//
// It knows nothing of HTTP, cookies, or tokens beyond their hashes. Seven packages below internal serve it: dberr (what an error means),
// names, schema, batch (writes that share a transaction), sqlite, postgres and notify. Packages copydb and inspect use it.
//
// Each Store method uses one of four paths. Store.call (run.go) bounds each by the caller's deadline, repeats and counts it:
//
//	read, write    run.go      a connection, then statements by GORM
//	apply          run.go      the statements of one write, queued so that others can share the transaction (internal/batch)
//	ChangedSince   changes.go  asks for changes in a statement that concurrent calls share
//	List           list.go     reads a list in batches, without GORM; the first batch returns its Moment (moment.go)
//
// When a list changes, a trigger leaves a mark in the table changes, in the same transaction. A Moment is the snapshot of one statement. If
// changes has a newer mark for a world, its lists may have changed.
//
// The database keeps only hashes of refresh tokens, in the row of their session (session.go, refresh.go). A refresh is one apply. If it
// changes no row, a read finds the reason, and a write revokes:
//
//	            refresh           leeway over, or 16 refreshes later
//	current ──────────────▶ spent ───────────────────────────────────▶ reused when it comes back:
//	   │                      │                                        the session is revoked (RFC 9700 section 4.14.2)
//	   │                      └── comes back within the leeway: refused, and nothing else happens (another tab was faster)
//	   └── expired, revoked, or taken by a newer sign-in: refused
//
// After a database timeout the token may be spent although the browser never got the new one. A retry within the leeway is refused; a later
// one revokes the session, whose JWTs then fail at their next operation.
package models
