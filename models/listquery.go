package models

import "strings"

// columns is what is asked about events.
type columns int

const (
	eventsOnly columns = iota
	withDigests
	placesOnly
	digestOnly
)

// listQuery is what queries for the events of a span differ in: columns and conditions.
type listQuery struct {
	columns
	from, to, after, user bool
}

// text leaves it to the subquery to order a batch with digests: its LIMIT keeps it a step of its own.
func (q listQuery) text(d dialect) string {
	var b strings.Builder
	add := func(yes bool, part string) {
		if yes {
			b.WriteString(part)
		}
	}
	const events = "SELECT e.id, e.name, e.description, e.scheduled_at, "
	add(q.columns == eventsOnly, events+d.usernames)
	add(q.columns == withDigests, "SELECT id, name, description, scheduled_at, usernames, "+d.digest+" FROM ("+
		events+d.usernames+" AS usernames, e.digest")
	add(q.columns == placesOnly, "SELECT e.scheduled_at, e.id")
	add(q.columns == digestOnly, "SELECT bit_xor("+d.digest+") FROM (SELECT e.digest, "+d.usernames+" AS usernames")
	add(true, " FROM events e WHERE e.world_id = ?")
	add(q.from, " AND e.scheduled_at >= ?")
	add(q.to, " AND e.scheduled_at < ?")
	add(q.after, " AND (e.scheduled_at, e.id) > (?, ?)")
	add(q.user, " AND EXISTS (SELECT 1 FROM users WHERE id = ?)")
	add(true, " ORDER BY e.scheduled_at, e.id LIMIT ?")
	add(q.columns == withDigests || q.columns == digestOnly, ") batch")
	return b.String()
}
