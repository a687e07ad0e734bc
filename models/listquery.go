package models

import "fmt"

// projection is which columns a query selects.
type projection int

const (
	eventsOnly projection = iota
	withMoment
	positionsOnly
)

// query asks for the next rows events, or about them. With withMoment a first row has the moment; the events
// behind it have the order of their subquery. That the caller is active is a condition of the same statement,
// which saves a round trip: if no rows come, checkIfNone finds out why.
//
// Position is compared as a row value, (scheduled_at, id) > (?, ?). Both databases find the start of such a
// range in the index events_list, however far the list has been read.
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
	return text, append(args, rows)
}

// rsvpQuery asks for the next rows RSVPs of the large event at l.Last. They come as one row; no row means that
// the event is gone. The inner LIMIT keeps their order.
//
// The next batch has to know the last user of this one. The query looks it up by its time, and counts up to it
// only if several users joined at the same time. An aggregate of the last user would be simpler, but takes
// PostgreSQL a tenth longer for the whole list.
func (l *EventReader) rsvpQuery(rows int) (text string, args []any) {
	d, id, r := l.store.dialect, l.Last.ID, l.rsvps
	next := fmt.Sprintf(`event_number = (SELECT number FROM events WHERE id = ?)
		AND (created_at, user_number) > (CAST(? AS %[1]s), CAST(? AS integer)) AND created_at <= CAST(? AS %[1]s)
		ORDER BY created_at, user_number`, d.time)
	text = fmt.Sprintf(`
		SELECT e.id, e.scheduled_at, usernames, CAST(joined_at AS text), CAST(coalesce(
				(SELECT max(user_number) FROM (
					SELECT user_number FROM rsvps WHERE event_number = e.number AND created_at = joined_at LIMIT 2
				) together HAVING count(*) = 1),
				(SELECT user_number FROM rsvps WHERE %[1]s LIMIT 1 OFFSET ?)
			) AS text), (SELECT CAST(max(created_at) AS text) FROM rsvps WHERE event_number = e.number)
		FROM events e, (
			SELECT %[2]s AS usernames, max(created_at) AS joined_at
			FROM (SELECT created_at, username FROM rsvps WHERE %[1]s LIMIT ?) next
		) batch WHERE e.id = ?`, next, d.joinUsernames)
	return text, []any{id, r.joinedAt, r.userNumber, r.until, rows - 1, id, r.joinedAt, r.userNumber, r.until, rows, id}
}
