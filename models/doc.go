// Package models keeps users, sessions, events and RSVPs in SQLite or PostgreSQL. Races are decided by the database: by one conditional
// UPDATE or one unique key, never by anything that an instance holds in memory.
//
// It knows nothing of HTTP, cookies or tokens beyond their hashes. What serves it stands in rooms of its own below internal, none of which
// knows this package: dberr (what an error means), names, schema, batch (writes that share a transaction), sqlite, postgres and notify.
// Above it stand copydb and inspect.
//
// A call of a Store comes to one of three corridors, each with the caller's time as its bound:
//
//	read, write    run.go         a connection, then statements by GORM
//	apply          run.go         a write as data: it shares a transaction (internal/batch)
//	List           list.go        a list in batches, past GORM, each query with what it saw (moment.go)
//
// A change of a list leaves a mark in the table changes, made by triggers in the same transaction. A Moment is what a statement saw, and the
// marks after it say whether a list is another one by now.
//
// A refresh token is known by its hash alone. What it is follows from its session's row (session.go):
//
//	            refresh           leeway over, or 16 refreshes later
//	current ──────────────▶ spent ───────────────────────────────────▶ reused when it comes back:
//	   │                      │                                        the session is revoked (RFC 9700 section 4.14.2)
//	   │                      └── comes back within the leeway: refused, and nothing else happens (another tab)
//	   └── expired, revoked, or taken by a newer sign-in: refused
package models
