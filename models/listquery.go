package models

import "strings"

// columns is what is asked about events.
type columns int

const (
	eventsOnly columns = iota
	withDigests
	positionsOnly
	digestOnly
)

// listQuery is what queries for the events of a span differ in: columns and conditions.
type listQuery struct {
	columns
	from, to, after, until, user bool
}

// text leaves it to the subquery to order a batch with digests: its LIMIT keeps it a step of its own.
func (q listQuery) text(d dialect) string {
	var b strings.Builder
	add := func(yes bool, part string) {
		if yes {
			b.WriteString(part)
		}
	}
	const events = "SELECT e.id, e.scheduled_at, e.name, e.description, "
	add(q.columns == eventsOnly, events+d.usernames)
	add(q.columns == withDigests, "SELECT id, scheduled_at, name, description, usernames, "+d.digest+" FROM ("+
		events+d.usernames+" AS usernames, e.digest")
	add(q.columns == positionsOnly, "SELECT e.scheduled_at, e.id")
	add(q.columns == digestOnly, "SELECT bit_xor("+d.digest+") FROM (SELECT e.digest, "+d.usernames+" AS usernames")
	add(true, " FROM events e WHERE e.world_id = ?")
	add(q.from, " AND e.scheduled_at >= ?")
	add(q.to, " AND e.scheduled_at < ?")
	add(q.after, " AND (e.scheduled_at, e.id) > (?, ?)")
	add(q.until, " AND (e.scheduled_at, e.id) <= (?, ?)")
	add(q.user, " AND EXISTS (SELECT 1 FROM users WHERE id = ?)")
	add(true, " ORDER BY e.scheduled_at, e.id LIMIT ?")
	add(q.columns == withDigests || q.columns == digestOnly, ") batch")
	return b.String()
}
