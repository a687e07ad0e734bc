// Package notify tells the instances that share a PostgreSQL database when one of them has written, with NOTIFY and LISTEN.
//
// A notification carries no data and may be lost. The hub of package livelist asks the database after each one, and once a second
// without one. No write waits for a notification. It is sent on a connection of the pool, and heard on one beside the pool.
//
// The notifier gathers the writes of 30 ms into one notification. The listener trusts its connection only after it has heard this
// instance's own notification, because some poolers accept LISTEN and pass nothing on:
//
//	connecting ──▶ listening ──(own notification)──▶ hears ──(nothing for 5 s, and no response)──▶ connecting
//	                   └──(none in 4 s)──▶ deaf, tries again after 30 s, or soon if none could be sent
package notify
