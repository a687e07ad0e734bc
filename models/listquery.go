package models

import (
	"strings"
	"sync/atomic"
)

// projection is which columns a query selects.
type projection int

const (
	eventsOnly projection = iota
	withMoment
	positionsOnly
	projections
)

// listQuery is what the queries of lists differ in: columns and conditions.
type listQuery struct {
	projection
	from, to, after, until bool
	userActive             bool // the user of the caller is
	sessionActive          bool // the caller's session is
}

// listQueries has the text of each listQuery that was ever used, by its number.
type listQueries [int(projections) << 6]atomic.Pointer[string]

// number tells a listQuery from all others.
func (q listQuery) number() int {
	n := int(q.projection)
	for _, yes := range [...]bool{q.from, q.to, q.after, q.until, q.userActive, q.sessionActive} {
		if n <<= 1; yes {
			n++
		}
	}
	return n
}

// text returns the text of a query, which it makes once.
func (all *listQueries) text(q listQuery, d dialect) string {
	known := &all[q.number()]
	if text := known.Load(); text != nil {
		return *text
	}
	text := d.parameters(q.sql(d))
	known.Store(&text)
	return text
}

// sql has the row with the moment come first, and leaves the order of the others to the subquery.
func (q listQuery) sql(d dialect) string {
	var b strings.Builder
	add := func(yes bool, part string) {
		if yes {
			b.WriteString(part)
		}
	}
	add(q.projection == withMoment, d.moments.firstRow+" UNION ALL SELECT * FROM (")
	add(q.projection != positionsOnly, "SELECT e.id, e.scheduled_at, e.name, e.description, "+d.usernames)
	add(q.projection == positionsOnly, "SELECT e.id, e.scheduled_at")
	add(true, " FROM events e WHERE e.world_id = ?")
	add(q.from, " AND e.scheduled_at >= ?")
	add(q.to, " AND e.scheduled_at < ?")
	add(q.after, " AND (e.scheduled_at, e.id) > (?, ?)")
	add(q.until, " AND (e.scheduled_at, e.id) <= (?, ?)")
	add(q.userActive, " AND "+userIsActive)
	add(q.sessionActive, " AND "+sessionIsActive)
	add(true, " ORDER BY e.scheduled_at, e.id LIMIT ?")
	add(q.projection == withMoment, ") batch")
	return b.String()
}

// query asks for the next rows events, or about them. That the caller is active is a condition of the same statement, so no
// events at all may mean that they are not.
func (l *EventReader) query(selected projection, caller Caller, rows int) (text string, args []any) {
	args = make([]any, 0, 12)
	q := listQuery{projection: selected, from: !l.options.From.IsZero(), to: !l.options.To.IsZero(),
		after: !l.Last.ScheduledAt.IsZero(), until: !l.until.ScheduledAt.IsZero()}
	args = append(args, l.options.WorldID)
	if q.from {
		args = append(args, l.options.From)
	}
	if q.to {
		args = append(args, l.options.To)
	}
	if q.after {
		args = append(args, l.Last.ScheduledAt, l.Last.ID)
	}
	if q.until {
		args = append(args, l.until.ScheduledAt, l.until.ID)
	}
	switch {
	case caller == Caller{}:
	case caller.SessionID.IsZero():
		q.userActive = true
		args = append(args, caller.UserID)
	default:
		q.sessionActive = true
		args = append(args, caller.SessionID, caller.UserID)
	}
	return l.store.lists.text(q, l.store.dialect), append(args, rows)
}
