package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/dberr"
)

// ListOptions selects events of a world, in the order of the list: by ScheduledAt, then id.
type ListOptions struct {
	WorldID string
	// From and To bound ScheduledAt, To exclusively. Zero means unbounded.
	From, To time.Time
	// After is the position behind which the list begins; zero means at its start.
	After Position
	// Limit is the largest number of events; 0 means all.
	Limit int
}

// Position is where an event stands in its world's list.
type Position struct {
	ScheduledAt time.Time
	ID          ID
}

// MaxUsernames is how many bytes the usernames of an event may have in a list.
const MaxUsernames = 32 << 20

// maxRSVPs is how many RSVPs of an event are read: JSON of more would be longer than MaxUsernames, since each has 26 bytes besides its name.
const maxRSVPs = MaxUsernames / 26

// ListedEvent is an event as it is read. Its texts are valid until the next one.
type ListedEvent struct {
	ID                ID
	ScheduledAt       time.Time
	Name, Description []byte
	// Usernames are those who have joined, in the order of joining, with a line feed between them; no username contains one.
	// TooMany means that they have more than MaxUsernames bytes; there are none then.
	Usernames []byte
	TooMany   bool
}

// EventSink takes a list as it is read. Its methods must not wait for a client, because a database connection is held meanwhile.
type EventSink interface {
	// Begin comes first. It comes again if the database wants the list to be read again.
	Begin()
	// Event takes the next event, and reports whether more are wanted.
	Event(*ListedEvent) (more bool)
}

// List is what a reading has found out besides the events.
type List struct {
	// Moment is that of all events.
	Moment Moment
	// Last is the position of the last event that the sink has taken.
	Last Position
	// More means that more events follow, which Limit left out.
	More bool
}

// ListTimeout bounds the reading of a list, including the time in the queue for a connection.
const ListTimeout = 10 * time.Second

// ReadList reads a list in one statement, so that all of it is of one moment. For a caller who is not active it returns ErrSignedOut; with the
// zero Caller it does not check. It returns ErrBusy after ListTimeout.
func (s *Store) ReadList(ctx context.Context, o ListOptions, caller Caller, sink EventSink) (List, error) {
	query, args := s.listQuery(o, caller)
	var list List
	err := s.run(ctx, s.reader, ListTimeout, func(tx *gorm.DB) error {
		list = List{}
		sink.Begin()
		n, active := -1, true
		err := s.database.rows(tx, query, args, func(row *ListedEvent) (more bool) {
			if n++; n == 0 { // the moment and the caller come first
				list.Moment, active = NewMoment(string(row.Name)), len(row.Description) > 0
				return true
			}
			if list.More = n > o.Limit && o.Limit > 0; list.More {
				return true // it is the last row
			}
			list.Last = Position{row.ScheduledAt, row.ID}
			if row.TooMany = string(row.Usernames) == tooMany; row.TooMany {
				row.Usernames = nil
			}
			return sink.Event(row)
		})
		switch {
		case err == nil && !active:
			return ErrSignedOut
		case errors.Is(dberr.Classify(err), ErrTimeout): // it says nothing about the server: the list may be long
			return fmt.Errorf("%w: %v", ErrBusy, err)
		}
		return err
	})
	return list, wrap(err, "read events")
}

// listQuery asks for a list. A first row has the moment, and says whether the caller is active; the events behind it have the order of
// their subquery. They come only if the caller is active. One statement has one snapshot, so that "none" is never the list of somebody
// who was blocked at that moment.
//
// After is compared as a row value, (scheduled_at, id) > (?, ?). Both databases find the start of such a range in the index events_list,
// however far the list has been read.
func (s *Store) listQuery(o ListOptions, caller Caller) (text string, args []any) {
	text, args = " FROM events e WHERE e.world_id = ?", append(make([]any, 0, 12), o.WorldID)
	and := func(yes bool, condition string, with ...any) {
		if yes {
			text += " AND " + condition
			args = append(args, with...)
		}
	}
	and(!o.From.IsZero(), "e.scheduled_at >= ?", o.From)
	and(!o.To.IsZero(), "e.scheduled_at < ?", o.To)
	and(!o.After.ScheduledAt.IsZero(), "(e.scheduled_at, e.id) > (?, ?)", o.After.ScheduledAt, o.After.ID)
	condition := "true"
	if caller != (Caller{}) {
		active := caller.isActive()
		and(true, active.SQL, active.Vars...)
		condition, args = active.SQL, slices.Concat(active.Vars, args)
	}
	text += " ORDER BY e.scheduled_at, e.id LIMIT ?"
	limit := int64(1 << 62)
	if o.Limit > 0 {
		limit = int64(o.Limit) + 1 // the one beyond shows that more follow
	}
	d := s.dialect
	return fmt.Sprintf(d.moments.firstRow, condition) + " UNION ALL SELECT * FROM (SELECT e.id, e.scheduled_at, e.name, e.description, " +
		d.usernames + text + ") list", append(args, limit)
}

// tooMany stands for the usernames of an event that has too many: a line feed that separates nothing.
const tooMany = "\n"

// joinedUsernames returns a dialect's usernames. The inner LIMIT gives the order to the aggregate, and bounds what it reads.
// What is too long never leaves the database, since the driver allocates a whole row.
func joinedUsernames(join, lineFeed string) string {
	return fmt.Sprintf(`
		(SELECT CASE WHEN octet_length(usernames) > %d THEN %s ELSE usernames END FROM (
			SELECT %s AS usernames FROM (
				SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number LIMIT %d
			) each) joined)`, MaxUsernames, lineFeed, join, maxRSVPs+1)
}

// WorldSize is how much text the events of a world have, in bytes of names and descriptions, and whose events have most of it.
type WorldSize struct {
	Bytes, CreatorBytes int64
	Creator             string // their username, "" if their account is gone
}

// WorldSize returns the size of a world that has events.
func (s *Store) WorldSize(ctx context.Context, world string) (size WorldSize, err error) {
	err = s.read(ctx, func(tx *gorm.DB) error {
		return scan(tx.Raw(`
			SELECT CAST(sum(sum(octet_length(e.name) + octet_length(e.description))) OVER () AS bigint),
				sum(octet_length(e.name) + octet_length(e.description)) AS bytes, coalesce(max(u.username), '')
			FROM events e LEFT JOIN users u ON u.id = e.creator_id WHERE e.world_id = ?
			GROUP BY e.creator_id ORDER BY bytes DESC LIMIT 1`, world), &size.Bytes, &size.CreatorBytes, &size.Creator)
	})
	return size, err
}
