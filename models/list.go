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

// ListOptions selects events of a world in the order of the list: by ScheduledAt, then id.
type ListOptions struct {
	WorldID  string
	From, To time.Time // bound ScheduledAt, To exclusively; zero means unbounded
	After    Position  // the list begins behind it; zero means at its start
	Limit    int       // at most this many events; 0 means all
}

// Position is the place of an event in its world's list.
type Position struct {
	ScheduledAt time.Time
	ID          ID
}

// MaxUsernames bounds the usernames of an event in a list, in bytes.
const MaxUsernames = 32 << 20

// maxRSVPs bounds the RSVPs of an event that are read. Each has 26 bytes of JSON besides its name: more would exceed MaxUsernames.
const maxRSVPs = MaxUsernames / 26

// ListedEvent is an event as it is read. Its texts are valid until the next one.
type ListedEvent struct {
	ID                ID
	ScheduledAt       time.Time
	Name, Description []byte
	// Usernames have joined, in this order, with line feeds, which no username has, between them. TooMany means more than MaxUsernames.
	Usernames []byte
	TooMany   bool
}

// EventSink takes a list while it is read. Its methods must not wait for a client, because they keep a database connection.
type EventSink interface {
	// Begin comes first, and again if the database has the list read again.
	Begin()
	// Event takes the next event, and reports whether it wants more.
	Event(*ListedEvent) (more bool)
}

// List is the result of reading a list, besides the events.
type List struct {
	Moment Moment   // of all events
	Last   Position // of the last event that the sink has taken
	More   bool     // Limit left out events
}

// ListTimeout bounds reading a list, including the queue for a connection.
const ListTimeout = 10 * time.Second

// ReadList reads a list in one statement, so that all of it is of one moment. It returns ErrSignedOut for a caller who is not active, does
// not check the zero Caller, and returns ErrBusy after ListTimeout.
func (s *Store) ReadList(ctx context.Context, o ListOptions, caller Caller, sink EventSink) (List, error) {
	var list List
	err := s.run(ctx, s.reader, ListTimeout, func(tx *gorm.DB) error {
		var active bool
		read := func(now string) error {
			list = List{}
			sink.Begin()
			n := -1
			query, args := s.listQuery(now, o, caller)
			return s.database.rows(tx, query, args, func(row *ListedEvent) (more bool) {
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
		}
		err := read(s.dialect.moments.now)
		if isInRecovery(err) {
			err = read("CAST(NULL AS text)")
		}
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

// listQuery is the query of a list. Its first row has the moment, which now is SQL for, and whether the caller is active; the events follow,
// in the order of their subquery, only if the caller is. One snapshot ensures that "none" is never the list of a user who was blocked at
// that moment.
//
// Both databases find the start of the range (scheduled_at, id) > (?, ?) in the index events_list, however far the list has been read.
func (s *Store) listQuery(now string, o ListOptions, caller Caller) (text string, args []any) {
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
	return fmt.Sprintf(d.moments.firstRow, now, condition) + " UNION ALL SELECT * FROM (SELECT e.id, e.scheduled_at, e.name, e.description, " +
		d.usernames + text + ") list", append(args, limit)
}

// tooMany stands for the usernames of an event that has too many: a line feed without names.
const tooMany = "\n"

// joinedUsernames returns a dialect's usernames. The inner LIMIT gives the aggregate its order, and bounds its rows. What is too long never
// leaves the database, since the driver allocates a whole row.
func joinedUsernames(join, lineFeed string) string {
	return fmt.Sprintf(`
		(SELECT CASE WHEN octet_length(usernames) > %d THEN %s ELSE usernames END FROM (
			SELECT %s AS usernames FROM (
				SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number LIMIT %d
			) each) joined)`, MaxUsernames, lineFeed, join, maxRSVPs+1)
}

// WorldSize is the size of the names and descriptions of a world's events, in bytes, and the creator of most of it.
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
