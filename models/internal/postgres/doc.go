// Package postgres makes connections to a PostgreSQL server, or to the one of several that takes writes, and finds dead connections
// before callers lose their time on them. It also runs the transactions that writes share.
//
// It knows no table, except for the rows that a shared write locks. User and password may change while it runs. Package pgxpool keeps the
// connections below an sql.DB, which has one only while it is in use:
//
//	call ─▶ Pool ─▶ sql.DB ─▶ connector ─▶ pgxpool ─┬─▶ idle for a second, or any call failed in the last four: ping ─▶ in use
//	                          names errors          │                                                     │
//	                                                └─▶ connect: hosts in turn, read-write, timeline ◀────┘ in vain: all are closed
//
// A connection that is being made belongs to nobody: it serves the next caller when its own has left. A statement runs again on another
// connection only if nothing of it was sent. Otherwise the caller gets ErrUnavailable or ErrTimeout, and may repeat a read.
//
// Writes share transactions in pipelines. A write waits 200 ms or somewhat longer for a lock. Then it leaves the shared transaction for
// the Lane: one write per locked row waits there on a connection of its own, on a quarter of the pool at most. One second after the call
// it gives up with ErrBusy, and nothing has happened.
package postgres
