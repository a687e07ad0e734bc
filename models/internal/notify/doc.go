// Package notify has the instances that share a PostgreSQL database notify each other of writes, with NOTIFY and LISTEN.
//
// A notification carries no data and may be lost. The hub of package livelist asks the database after each one, and once a second without
// one. No write waits for a notification:
//
//	write ──▶ notifier ──(one in 30 ms, by the pool)──▶ NOTIFY ──▶ listener of each other instance ──▶ hub
//
// The listener has a connection beside the pool:
//
//	connecting ──▶ listening ──(nothing for 5 s)──▶ LISTEN again ──(no response)──▶ rests for 5 s ──▶ connecting
package notify
