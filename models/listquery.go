package models

// projection is which columns a query selects.
type projection int

const (
	eventsOnly projection = iota
	withMoment
	positionsOnly
)

// query asks for the next rows events, or about them. The row with the moment comes first, and the order of the others is the
// subquery's. That the caller is active is a condition of the same statement, so no events at all may mean that they are not.
func (l *EventReader) query(selected projection, caller Caller, rows int) (text string, args []any) {
	d, o := l.store.dialect, l.options
	text, args = " FROM events e WHERE e.world_id = ?", append(make([]any, 0, 12), o.WorldID)
	and := func(yes bool, condition string, with ...any) {
		if yes {
			text += " AND " + condition
			args = append(args, with...)
		}
	}
	and(!o.From.IsZero(), "e.scheduled_at >= ?", o.From)
	and(!o.To.IsZero(), "e.scheduled_at < ?", o.To)
	and(!l.Last.ScheduledAt.IsZero(), "(e.scheduled_at, e.id) > (?, ?)", l.Last.ScheduledAt, l.Last.ID)
	and(!l.until.ScheduledAt.IsZero(), "(e.scheduled_at, e.id) <= (?, ?)", l.until.ScheduledAt, l.until.ID)
	active := caller.isActive()
	and(caller != Caller{}, active.SQL, active.Vars...)
	text += " ORDER BY e.scheduled_at, e.id LIMIT ?"
	switch selected {
	case eventsOnly:
		text = "SELECT e.id, e.scheduled_at, e.name, e.description, " + d.usernames + text
	case withMoment:
		text = d.moments.firstRow + " UNION ALL SELECT * FROM (SELECT e.id, e.scheduled_at, e.name, e.description, " + d.usernames + text + ") batch"
	case positionsOnly:
		text = "SELECT e.id, e.scheduled_at" + text
	}
	return d.parameters(text), append(args, rows)
}
