// Package postgres makes connections to a PostgreSQL server, or to the one of several that takes writes, and finds dead connections before
// callers lose their time on them. It also runs the transactions that writes share. It knows no table. User and password may change.
//
// Package pgxpool keeps the connections below an sql.DB, which has one only while it is in use:
//
//	call ─▶ Pool ─▶ sql.DB ─▶ connector ─▶ pgxpool ─┬─▶ idle for a second, or any call failed in the last four: ping ─▶ in use
//	                          names errors          │                                                     │
//	                                                └─▶ connect: hosts in turn, read-write, timeline ◀────┘ in vain: all are closed
//
// A new connection belongs to nobody: it serves the next caller when its own has left. A statement runs again on another connection only if
// nothing of it was sent. Otherwise the caller gets ErrUnavailable or ErrTimeout, and may repeat a read.
//
// Writes share transactions in pipelines. One that gets no lock within 200 ms leaves the shared transaction for a batch.Lane. One second
// after the call it gives up with ErrBusy, and nothing has happened.
package postgres
