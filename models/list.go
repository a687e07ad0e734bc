package models

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
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

// EventSink takes a list as it is read. Its methods must not wait for a client, because a database connection
// is held meanwhile.
type EventSink interface {
	// Event begins an event; the usernames that follow belong to it. The slices are valid only during the call.
	Event(id ID, name, description []byte, scheduledAt time.Time)
	// Usernames adds users of the event in the order of joining, with a line feed between them; no username
	// contains one. It is called any number of times for an event, and never with an empty text.
	Usernames(text []byte)
	// Size is the number of bytes taken so far. Truncate goes back to an earlier size: the database may want a
	// batch to be read again, so Truncate comes before each.
	Size() int
	Truncate(size int)
}

// EventReader reads a list in batches, so that neither memory nor the time until the first event grows with the
// world.
//
// Each batch that Next reads is of another moment. Between two batches RSVPs come and go, and an event that
// EditEvent moves to another time may be read twice or not at all. The batches of Snapshot are all of one
// moment.
//
// An EventReader may be copied, and both copies then read on by themselves.
type EventReader struct {
	store   *Store
	options ListOptions
	readState
	batchLimits
	until Position // of the last event, once PinPage has been called
}

// readState is how far a list has been read. A batch works on a copy, which replaces it once the batch has
// succeeded: so a batch that fails leaves nothing behind.
type readState struct {
	rows      int // events to ask for in the next batch
	remaining int // events still wanted; below 0 for all
	begun     bool
	rsvps     rsvpState // of the large event that it is inside of
	pinned    []ID      // the events still to come, in order, once PinPage has been called; else nil

	// Last is the position of the last event read.
	Last Position
	// Moment is that of the first batch. It is the moment of the whole list if that was read in one batch or by
	// Snapshot.
	Moment Moment
	// Done means that the list has been read.
	Done bool
	// More means, once Done or pinned, that more events follow, which Limit left out.
	More bool
}

// rsvpState is how far the RSVPs of a large event have been read; zero outside of one. Its texts are times and numbers as the
// database writes them, so that reading on compares exactly what was stored.
type rsvpState struct {
	rows  int    // RSVPs to ask for in the next batch
	event string // the event's number, "0" before the first batch
	// The position of the last RSVP read.
	joinedAt, userNumber string
	// until is when the last user had joined as the reading of the event began. Users who join later are left
	// out. Otherwise somebody who leaves and joins again during the reading would stand in the event twice.
	until string
}

// beforeAll and afterAll come before and after all times. PostgreSQL knows both words as times. In SQLite times
// are texts, and these texts sort there: '-' before all digits, 'i' after them.
const beforeAll, afterAll = "-infinity", "infinity"

// List begins to read a list. It does not call the database; Next and Snapshot do.
func (s *Store) List(options ListOptions) *EventReader {
	l := &EventReader{store: s, options: options, batchLimits: usualBatches, readState: readState{rows: firstRows, remaining: options.Limit, Last: options.After}}
	if options.Limit == 0 {
		l.remaining = -1
	}
	return l
}

// SetSmall makes the next batches small ones, or usual ones again. Small batches need little memory while a
// client reads, and take the database longer.
func (l *EventReader) SetSmall(small bool) {
	l.batchLimits = usualBatches
	if small {
		l.batchLimits = smallBatches
	}
}

// errStuck is returned for a batch after which the reading stands where it stood before. It would go on for ever.
var errStuck = errors.New("the reading does not move on")

// Next reads one batch into sink. For a caller who is not active it returns ErrSignedOut, unless the batch has but
// RSVPs of a large event; with the zero Caller it does not check. After an error the sink is as it was before.
func (l *EventReader) Next(ctx context.Context, caller Caller, sink EventSink) error {
	size, start := sink.Size(), l.readState
	maxWait := l.store.options.MaxWait
	if l.begun { // the response has begun and can no longer be refused, so it may be queued for longer
		maxWait = l.store.options.Timeout
	}
	err := l.store.run(ctx, l.store.reader, maxWait, func(tx *gorm.DB) error {
		sink.Truncate(size) // what an earlier try left
		rows := func(query string, args []any, each func(*listRow) (more bool)) error {
			return l.store.database.rows(tx, query, args, each)
		}
		return l.nextBatch(rows, caller, sink)
	})
	return l.ended(err, start, sink, size)
}

// Snapshot reads batches that are all of one moment, until the list is done or more returns false. Before it
// calls more, the sink has what was read so far. It is as it was before the first batch when the whole
// reading is repeated.
//
// Only the first batch checks the caller: the others see the same moment, so that the answer cannot change.
func (l *EventReader) Snapshot(ctx context.Context, caller Caller, sink EventSink, more func() bool) error {
	size, start := sink.Size(), l.readState
	err := l.store.read(ctx, func(tx *gorm.DB) error {
		return l.store.database.snapshot(tx, func(rows rowsFunc) error {
			sink.Truncate(size)
			l.readState = start
			who := caller
			for !l.Done && more() {
				sink.Truncate(sink.Size()) // what came before ends here
				if err := l.nextBatch(rows, who, sink); err != nil {
					return err
				}
				who = Caller{}
			}
			return nil
		})
	})
	return l.ended(err, start, sink, size)
}

// ended puts sink and state back to where they were if err is not nil.
func (l *EventReader) ended(err error, start readState, sink EventSink, size int) error {
	if err != nil {
		sink.Truncate(size)
		l.readState = start
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

// PinPage fixes which events the rest of a page has. A response with a limit may have to begin before its page
// has been read, and its header Link must name the page's last event by then. So events that are created later
// are left out, and PinPage returns the position of the last one. More is known from now on.
func (l *EventReader) PinPage(ctx context.Context) (Position, error) {
	var pinned []ID
	var beyond bool
	last := l.Last
	err := l.store.read(ctx, func(tx *gorm.DB) error {
		pinned, beyond, last = make([]ID, 0, l.remaining), false, l.Last
		query, args := l.query(positionsOnly, Caller{}, l.remaining+1)
		return l.store.database.rows(tx, query, args, func(row *listRow) (more bool) {
			if beyond = len(pinned) == l.remaining; beyond {
				return false
			}
			last = Position{row.at, row.id}
			pinned = append(pinned, row.id)
			return true
		})
	})
	if err != nil {
		return Position{}, fmt.Errorf("pin page: %w", err)
	}
	l.pinned, l.until, l.More, l.remaining = pinned, last, beyond, -1
	return last, nil
}
