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
	// After is the position after which the list begins; zero means at its start.
	After Position
	// Limit is the largest number of events; 0 means all.
	Limit int
}

// Position is where an event stands in its world's list.
type Position struct {
	ScheduledAt time.Time
	ID          ID
}

// EventSink takes a list as it is read. Its methods must not wait for a client: a connection is held meanwhile.
type EventSink interface {
	// Event begins an event; what follows belongs to it. The slices are only lent.
	Event(id ID, name, description []byte, scheduledAt time.Time)
	// Usernames are those of the event's next RSVPs in the order of joining, each ended by a line feed but the last;
	// no username contains one. It is called any number of times for an event, never with nothing.
	Usernames(text []byte)
	// Size is the number of bytes taken so far; Truncate goes back to an earlier one. Truncate comes before each batch.
	Size() int
	Truncate(size int)
}

// EventReader reads a list in batches, so that neither memory nor the time until the first event grows with the world.
// Batches that Next reads are each of another moment: between them RSVPs come and go, and an event that EditEvent moves to
// another time just then may be read twice, or not at all. Those that Snapshot reads are all of one moment. A copy of an
// EventReader goes on by itself.
type EventReader struct {
	store   *Store
	options ListOptions
	readState
	batchLimits
	until Position // of the last event, once PinPage has been called
}

// readState is how far a list has been read.
type readState struct {
	rows      int // events to ask for in the next batch
	remaining int // events still wanted; below 0 for all
	begun     bool
	rsvps     *rsvpState // inside a large event, else nil
	pinned    []ID       // the events still to come, in order, once PinPage has been called; else nil

	// Last is the position of the last event read.
	Last Position
	// Moment is what the first batch saw. The whole list did if it has been read in one batch, or by Snapshot.
	Moment Moment
	// Done means that the list has been read.
	Done bool
	// More means, once Done or pinned, that events follow which Limit left out.
	More bool
}

// rsvpState is how far the RSVPs of a large event have been read. Its texts are times and a number as the database spells them.
type rsvpState struct {
	rows int // RSVPs to ask for in the next batch
	// The position of the last RSVP read.
	joinedAt, userNumber string
	// until is when the last user had joined as the reading of the event began. Whoever joins later is left out, so
	// that nobody who leaves and joins again meanwhile stands in the event twice.
	until string
}

// beforeAll and afterAll are times for PostgreSQL, and for SQLite, whose times are texts, texts that sort like that.
const beforeAll, afterAll = "-infinity", "infinity"

// isAfter reports whether s is further on than earlier.
func (s *readState) isAfter(earlier readState) bool {
	if s.Done || s.Last != earlier.Last || s.rsvps == nil || earlier.rsvps == nil {
		return s.Done || s.Last != earlier.Last || s.rsvps != earlier.rsvps
	}
	return *s.rsvps != *earlier.rsvps
}

// List begins to read a list.
func (s *Store) List(options ListOptions) *EventReader {
	l := &EventReader{store: s, options: options, batchLimits: usualBatches, readState: readState{rows: firstRows, remaining: options.Limit, Last: options.After}}
	if options.Limit == 0 {
		l.remaining = -1
	}
	return l
}

// SetSmall makes the next batches small ones, or usual ones again. Small batches take the database longer.
func (l *EventReader) SetSmall(small bool) {
	l.batchLimits = usualBatches
	if small {
		l.batchLimits = smallBatches
	}
}

// errStuck is returned for a batch after which the reading stands where it stood, which would go on for ever.
var errStuck = errors.New("the reading does not move on")

// Next reads one batch into sink. On behalf of a caller who is not active it returns ErrSignedOut; with the zero
// Caller it does not look. After an error the sink is as it was before.
func (l *EventReader) Next(ctx context.Context, caller Caller, sink EventSink) error {
	size, start := sink.Size(), l.readState
	maxWait := l.store.maxWait
	if l.begun { // a response that has begun is worth more waiting than one that could still be refused
		maxWait = l.store.timeout
	}
	err := l.store.run(ctx, l.store.reader, maxWait, func(tx *gorm.DB) error {
		sink.Truncate(size) // what an earlier try left
		rows := func(query string, args []any, each func(*listRow) (more bool)) error {
			return l.store.database.rows(tx, query, args, each)
		}
		got, err := l.nextBatch(rows, caller, sink)
		if err != nil {
			return err
		}
		return caller.checkIfNone(tx, got)
	})
	return l.ended(err, start, sink, size)
}

// Snapshot is Next again and again, all of one moment, until the list is done or more returns false. It calls more before each
// batch: sink has what was read so far, and is as it was before when the database wants the whole to be repeated.
func (l *EventReader) Snapshot(ctx context.Context, caller Caller, sink EventSink, more func() bool) error {
	size, start := sink.Size(), l.readState
	err := l.store.read(ctx, func(tx *gorm.DB) error {
		sink.Truncate(size)
		l.readState = start
		who, got := caller, 0
		err := l.store.database.snapshot(tx, func(rows rowsFunc) error {
			for !l.Done && more() {
				sink.Truncate(sink.Size()) // what came before ends here
				n, err := l.nextBatch(rows, who, sink)
				if err != nil {
					return err
				}
				who, got = Caller{}, got+n
			}
			return nil
		})
		if err != nil {
			return err
		}
		return caller.checkIfNone(tx, got)
	})
	return l.ended(err, start, sink, size)
}

// ended takes a reading back that has failed.
func (l *EventReader) ended(err error, start readState, sink EventSink, size int) error {
	if err != nil {
		sink.Truncate(size)
		l.readState = start
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

// checkIfNone returns ErrSignedOut if no rows came since the caller is not active.
func (c Caller) checkIfNone(tx *gorm.DB, rows int) error {
	if rows > 0 || c == (Caller{}) {
		return nil
	}
	return c.check(tx)
}

// PinPage fixes which events the rest of a page holds, for a list with a limit whose response must start before it has
// been read: events that are created later are left out. It returns the position of the last one; More is known from
// now on.
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
