// Package postgres makes connections to a PostgreSQL server, or to the one of several that takes writes, and finds dead connections
// before callers lose their time on them. It also runs the transactions that writes share.
//
// It knows no table, except for the rows that a shared write locks. User and password may change while it runs. Whatever may take long,
// such as looking names up and pinging, gets a part of the caller's time and no more. Connecting has its own limit: see attempts.
//
// A Server makes the connections of its pools and those beside them. It asks one host, its current one. When that refuses or is suspect,
// it asks all hosts at once, and the first that takes writes becomes the current one. The search for suspects needs several hosts in the
// URL:
//
//	              a call has waited 200 ms, and no connection to the host got a byte meanwhile
//	current host ────────────────────────────────────────────────────────────────────────────▶ search ──▶ the same host, or another
//
// An attempt to connect belongs to nobody: its result is for whoever waits when it ends. After one has failed, only a few begin.
//
// A pooled connection is pinged before use if it was idle for a second, or if any call has timed out or lost its connection since its last
// response (checks.go). A statement runs again on another connection only if nothing of it was sent. Otherwise the caller gets
// ErrUnavailable or ErrTimeout, and may repeat a read.
//
// Writes share transactions in pipelines. A write waits 200 ms or somewhat longer for a lock. Then it leaves the shared transaction for
// the Lane: one write per locked row waits there on a connection of its own, on a quarter of the pool at most. One second after the call
// it gives up with ErrBusy, and nothing has happened.
package postgres
