// Package batch lets writes share transactions, so that many of them wait for the disk once.
//
// It carries the statements of writes and knows no database: a Transactor runs a batch in a transaction. SQLite's is Savepoints;
// PostgreSQL's is in package postgres; a third one, in package models, answers questions that share a statement.
//
// A write is a Job on its way through a Batcher:
//
//	submit ──▶ queued ──▶ begun ──▶ ended, and its caller returns
//	              │          │
//	              │          └──▶ its time is over: ErrTimeout, and nobody knows what becomes of it
//	              └──▶ left: its caller has gone, or it was queued for too long: ErrBusy, and it never runs
//
// Connections shares those of a pool, in front of database/sql. Lane keeps writes that need a locked row apart from the others.
package batch
