// Package batch lets writes share transactions, so that many of them wait for the disk once.
//
// It carries the statements of writes and knows no database: a Transactor runs a batch in a transaction. SQLite's Transactor is Savepoints;
// PostgreSQL's is in package postgres. A third one, in package models, answers questions that share a statement. The package also shares the
// connections of a pool (Connections), in front of database/sql, so that "no connection came free" (ErrBusy) differs from "the database did not
// respond" (ErrTimeout).
//
// A write is a Job on its way through a Batcher:
//
//	submit ──▶ queued ──▶ begun ──▶ ended, and its caller told
//	              │          │
//	              │          └──▶ its time is over: ErrTimeout, and nobody knows what becomes of it
//	              └──▶ left: its caller has gone, or it was queued for too long: ErrBusy, and it never runs
//
// A transaction takes all that were queued while the one before it ran. On PostgreSQL a write that meets none runs on the goroutine of its caller. A
// caller hears of success only after the commit that contains its write. Lane has those wait apart that need a locked row.
package batch
