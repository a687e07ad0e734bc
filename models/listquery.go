package models

import "strings"

// projection is which columns a query selects.
type projection int

const (
	eventsOnly projection = iota
	withFingerprints
	positionsOnly
	fingerprintOnly
)

// listQuery is what the queries of lists differ in: columns and conditions.
type listQuery struct {
	projection
	from, to, after, until, user bool
}

// sql leaves the order of a batch with fingerprints to the subquery, whose LIMIT keeps it a step of its own.
func (q listQuery) sql(d dialect) string {
	var b strings.Builder
	add := func(yes bool, part string) {
		if yes {
			b.WriteString(part)
		}
	}
	const events = "SELECT e.id, e.scheduled_at, e.name, e.description, "
	add(q.projection == eventsOnly, events+d.usernames)
	add(q.projection == withFingerprints, "SELECT id, scheduled_at, name, description, usernames, "+d.fingerprint+" FROM ("+
		events+d.usernames+" AS usernames, e.digest")
	add(q.projection == positionsOnly, "SELECT e.scheduled_at, e.id")
	add(q.projection == fingerprintOnly, "SELECT bit_xor("+d.fingerprint+") FROM (SELECT e.digest, "+d.usernames+" AS usernames")
	add(true, " FROM events e WHERE e.world_id = ?")
	add(q.from, " AND e.scheduled_at >= ?")
	add(q.to, " AND e.scheduled_at < ?")
	add(q.after, " AND (e.scheduled_at, e.id) > (?, ?)")
	add(q.until, " AND (e.scheduled_at, e.id) <= (?, ?)")
	add(q.user, " AND EXISTS (SELECT 1 FROM users WHERE id = ?)")
	add(true, " ORDER BY e.scheduled_at, e.id LIMIT ?")
	add(q.projection == withFingerprints || q.projection == fingerprintOnly, ") batch")
	return b.String()
}
