// Package batch lets writes share transactions, so that many of them wait for the disk once.
//
// It carries writes as data and knows no database: a Transactor runs a batch in a transaction. Savepoints is that of SQLite; the one of
// PostgreSQL stands in package postgres. It also shares the connections of a pool (Connections), in front of database/sql, so that "no
// connection came free" (ErrBusy) differs from "the database did not respond" (ErrTimeout).
//
// A write is a Job on its way through a Batcher:
//
//	submit ──▶ queued ──▶ begun ──▶ ended, and its caller told
//	              │          │
//	              │          └──▶ its time is over: ErrTimeout, and nobody knows what becomes of it
//	              └──▶ left: its caller has gone, or its wait is over: ErrBusy, and it never runs
//
// A write that finds a free place runs at once, where it was called. Those that come while all places are taken are the next batch.
// Whoever is told of success has been covered by a commit that began after the call.
package batch
