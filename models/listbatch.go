package models

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// Of most worlds the first batch is the whole list.
	firstRows = 128
	// A query for events asks for one username more of each.
	largeRSVPs = 256
	// The first batch of a large event has no more RSVPs.
	firstRSVPs = 4096
)

// batchLimits bound how much is read at once. A batch is held in memory as JSON, so these bound memory, too.
type batchLimits struct {
	maxRows, maxRSVPs int
	// large bounds the RSVPs of an ordinary event. An event with more is large: its RSVPs are read in batches,
	// too. It is at most largeRSVPs.
	large int
	// A batch of events has no more bytes than maxBytes. One event alone may have more: 130 KB at most, and 30
	// KB in a small batch.
	maxBytes int
	// A batch of RSVPs has no more bytes of usernames than maxNames, unless it is one RSVP. Their JSON has 26
	// bytes more for each.
	maxNames int
}

var (
	usualBatches = batchLimits{maxRows: 512, maxRSVPs: 12288, large: largeRSVPs, maxBytes: 384 << 10, maxNames: 160 << 10}
	smallBatches = batchLimits{maxRows: 32, maxRSVPs: 256, large: 16, maxBytes: 8 << 10, maxNames: 4 << 10}
)

// resize returns how many rows to ask for next. The last batch asked for asked rows and brought n, in so many
// bytes, and the next one shall bring about want bytes: so the average row decides. It at most doubles each
// time, since the last rows may have been unusually short, and most bounds it.
func resize(asked, n, bytes, want, most int) int {
	return min(2*asked, max(1, n*want/max(1, bytes)), most)
}

// resizeRSVPs is resize for RSVPs. It leaves an eighth free for names that are longer than the last ones, since
// a batch that is too long brings nothing.
func (l batchLimits) resizeRSVPs(asked, n, bytes int) int {
	return resize(asked, n, bytes, l.maxNames*7/8, l.maxRSVPs)
}

// listRow is a row of a batch: an event, or the next RSVPs of one. It is valid until the next row.
type listRow struct {
	id ID
	at time.Time // scheduled
	// An event has three texts: its name, its description, and its first usernames, at most largeRSVPs+1 of
	// them. RSVPs have five: the number of their event, their usernames, the two texts of the last one's
	// position as rsvpState has them, and when the event's last user joined.
	texts [5][]byte
}

var lineFeed = []byte{'\n'}

// countNames returns how many usernames a text has, with line feeds between them. Counting here is quicker than
// having the database count.
func countNames(usernames []byte) int {
	if len(usernames) == 0 {
		return 0
	}
	return 1 + bytes.Count(usernames, lineFeed)
}

// rowsFunc runs a query of a list's batch and calls each with every row, until it wants no more.
type rowsFunc func(query string, args []any, each func(*listRow) (more bool)) error

// nextBatch reads one batch. It changes l only if it succeeds.
func (l *EventReader) nextBatch(rows rowsFunc, caller Caller, sink EventSink) (err error) {
	next := l.readState
	next.begun = true
	if l.rsvps != (rsvpState{}) {
		err = l.nextRSVPs(rows, sink, &next)
	} else {
		err = l.nextEvents(rows, caller, sink, &next)
	}
	if err == nil && !next.Done && next.Last == l.Last && next.rsvps == l.rsvps {
		err = errStuck
	}
	if err == nil {
		l.readState = next
	}
	return err
}

// nextEvents reads the next events with their RSVPs. It ends after the first large event, whose RSVPs nextRSVPs
// reads then. It returns ErrSignedOut if the caller is not active.
func (l *EventReader) nextEvents(rows rowsFunc, caller Caller, sink EventSink, s *readState) error {
	want := min(s.rows, l.maxRows)
	if s.remaining >= 0 {
		want = min(want, s.remaining+1) // the one beyond shows that more follow
	}
	selected := eventsOnly
	if !l.begun || caller != (Caller{}) {
		selected = withMoment
	}
	query, args := l.query(selected, caller, want)
	got, active := 0, true
	start, ended := sink.Size(), false // ended means that the batch ended before the query
	beyond := false                    // the page is full, and one more event follows it
	err := rows(query, args, func(row *listRow) (more bool) {
		if selected == withMoment {
			selected, active = eventsOnly, len(row.texts[1]) > 0
			if !l.begun {
				s.Moment = NewMoment(string(row.texts[0]))
			}
			return active
		}
		name, description, usernames := row.texts[0], row.texts[1], row.texts[2]
		size, n := len(name)+len(description), countNames(usernames)
		large := n > l.large
		if !large {
			size += len(usernames)
		}
		if ended = got > 0 && s.remaining != 0 && sink.Size()-start+size > l.maxBytes; ended {
			return false // it begins the next batch
		}
		got++
		if beyond = s.remaining == 0; beyond {
			return false
		}
		s.Last = Position{row.at, row.id}
		if s.pinned != nil {
			i := slices.Index(s.pinned, row.id)
			if i < 0 {
				return true // it was created after the page had been pinned
			}
			s.pinned = s.pinned[i+1:]
		}
		s.remaining--
		sink.Event(row.id, name, description, row.at)
		if ended = large; large {
			s.rsvps = rsvpState{rows: l.resizeRSVPs(firstRSVPs/2, n, len(usernames)), event: "0", joinedAt: beforeAll, userNumber: "0", until: afterAll}
		} else if len(usernames) > 0 {
			sink.Usernames(usernames)
		}
		return !ended
	})
	if err == nil && !active {
		err = ErrSignedOut
	}
	if err != nil {
		return err
	}
	s.More = s.More || beyond
	s.Done = beyond || got < want && !ended
	s.rows = resize(s.rows, got, sink.Size()-start, l.maxBytes, l.maxRows)
	if s.rsvps != (rsvpState{}) {
		s.rows = max(2, 2*got)
	}
	return nil
}

// errRemoved is returned for an event that was removed while its RSVPs were read. Going on would show an event
// that never had just these RSVPs.
var errRemoved = errors.New("an event was removed while it was read")

// nextRSVPs reads the next RSVPs of the large event at l.Last. If the usernames of a batch are too long, it
// brings none, and the next one asks for fewer.
func (l *EventReader) nextRSVPs(rows rowsFunc, sink EventSink, s *readState) error {
	r, there, done := &s.rsvps, false, false
	want := min(r.rows, l.maxRSVPs)
	query, args := l.rsvpQuery(want)
	err := rows(query, args, func(row *listRow) (more bool) {
		there = true
		r.event = string(row.texts[0])
		usernames := row.texts[1]
		n := countNames(usernames)
		r.rows = l.resizeRSVPs(want, n, len(usernames))
		if n > 1 && len(usernames) > l.maxNames {
			return false
		}
		if done = n < want; n > 0 {
			sink.Usernames(usernames)
			r.joinedAt, r.userNumber = string(row.texts[2]), string(row.texts[3])
			if r.until == afterAll {
				r.until = string(row.texts[4])
			}
		}
		return false
	})
	if err == nil && !there {
		err = errRemoved
	}
	if done {
		s.rsvps = rsvpState{}
	}
	return err
}

// projection is which columns a query selects.
type projection int

const (
	eventsOnly projection = iota
	withMoment
	positionsOnly
)

// query asks for the next rows events, or about them. With withMoment a first row has the moment, and says
// whether the caller is active; the events behind it have the order of their subquery. They come only if the
// caller is active. One statement has one snapshot, so that "none" is never the list of somebody who was blocked
// at that moment.
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
		condition := "true"
		if caller != (Caller{}) {
			condition, args = active.SQL, slices.Concat(active.Vars, args)
		}
		text = fmt.Sprintf(d.moments.firstRow, condition) + " UNION ALL SELECT * FROM (SELECT e.id, e.scheduled_at, e.name, e.description, " + d.usernames + text + ") batch"
	case positionsOnly:
		text = "SELECT e.id, e.scheduled_at" + text
	}
	return text, append(args, rows)
}

// rsvpQuery asks for the next rows RSVPs of the large event at l.Last. They come as one row; no row means that
// the event is gone. The inner LIMIT keeps their order.
//
// The event is found by its id at first and by its number as well from then on: one that is removed and created
// again with its key has the same id, and is another.
//
// The next batch has to know the last user of this one. The query looks it up by its time, and counts up to it
// only if several users joined at the same time. An aggregate of the last user would be simpler, but takes
// PostgreSQL a tenth longer for the whole list.
func (l *EventReader) rsvpQuery(rows int) (text string, args []any) {
	d, id, r := l.store.dialect, l.Last.ID, l.rsvps
	const event = "id = ? AND CAST(? AS bigint) IN (0, number)"
	next := fmt.Sprintf(`event_number = (SELECT number FROM events WHERE %[1]s)
		AND (created_at, user_number) > (CAST(? AS %[2]s), CAST(? AS integer)) AND created_at <= CAST(? AS %[2]s)
		ORDER BY created_at, user_number`, event, d.time)
	text = fmt.Sprintf(`
		SELECT e.id, e.scheduled_at, CAST(e.number AS text), usernames, CAST(joined_at AS text), CAST(coalesce(
				(SELECT max(user_number) FROM (
					SELECT user_number FROM rsvps WHERE event_number = e.number AND created_at = joined_at LIMIT 2
				) together HAVING count(*) = 1),
				(SELECT user_number FROM rsvps WHERE %[1]s LIMIT 1 OFFSET ?)
			) AS text), (SELECT CAST(max(created_at) AS text) FROM rsvps WHERE event_number = e.number)
		FROM events e, (
			SELECT %[2]s AS usernames, max(created_at) AS joined_at
			FROM (SELECT created_at, username FROM rsvps WHERE %[1]s LIMIT ?) next
		) batch WHERE %[3]s`, next, d.joinUsernames, event)
	from := []any{id, r.event, r.joinedAt, r.userNumber, r.until}
	return text, slices.Concat(from, []any{rows - 1}, from, []any{rows, id, r.event})
}
