package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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
	// Size is the number of bytes taken so far; Truncate goes back to an earlier one.
	Size() int
	Truncate(size int)
}

// EventReader reads a list in batches, so that neither memory nor the time until the first event grows with the world.
// Each batch is a snapshot of its own: between batches RSVPs come and go. An event that EditEvent moves to another time just
// then may be read twice, or not at all. A copy of an EventReader goes on by itself.
type EventReader struct {
	store   *Store
	options ListOptions
	readState
	withFingerprint bool
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
	// Fingerprint equals ListFingerprint at the time of reading. It is set only if it was asked for and the list fit in
	// one batch.
	Fingerprint uint64
	// Done means that the list has been read.
	Done bool
	// More means, once Done or pinned, that events follow which Limit left out.
	More bool
}

// rsvpState is how far the RSVPs of a large event have been read.
type rsvpState struct {
	event int64 // the Number of the event, once until is set
	rows  int   // RSVPs to ask for in the next batch
	// The position of the last RSVP read.
	joinedAt   time.Time
	userNumber int32
	// until is when the last user had joined as the reading of the event began. Whoever joins later is left out, so
	// that nobody who leaves and joins again meanwhile stands in the event twice.
	until time.Time
}

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

// WithFingerprint makes l have a Fingerprint, which takes the database longer. A database without fingerprints ignores it.
func (l *EventReader) WithFingerprint() { l.withFingerprint = l.store.dialect.fingerprint != "" }

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
	size := sink.Size()
	maxWait := l.store.maxWait
	if l.begun { // a response that has begun is worth more waiting than one that could still be refused
		maxWait = l.store.timeout
	}
	err := l.store.run(ctx, l.store.reader, maxWait, func(tx *gorm.DB) error {
		next := l.readState
		next.begun = true
		sink.Truncate(size) // what an earlier try left
		read := l.nextEvents
		if l.rsvps != nil {
			read = l.nextRSVPs
		}
		if err := read(tx, caller, sink, &next); err != nil {
			return err
		}
		if !next.isAfter(l.readState) {
			return errStuck
		}
		l.readState = next
		return nil
	})
	if err != nil {
		sink.Truncate(size)
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

// nextEvents reads the next events with their RSVPs, up to and including the first large one, without RSVPs.
func (l *EventReader) nextEvents(tx *gorm.DB, caller Caller, sink EventSink, s *readState) error {
	want := min(s.rows, l.maxRows)
	if s.remaining >= 0 {
		want = min(want, s.remaining+1) // the one beyond shows that more follow
	}
	selected := eventsOnly
	if l.withFingerprint && !l.begun {
		selected = withFingerprints
	}
	query, args := l.query(selected, caller, want)
	start, got, ended := sink.Size(), 0, false // ended means before the query did
	beyond := false                            // the page is full, and there is one event more
	err := l.store.dialect.rows(tx, query, args, func(row *listRow) (more bool) {
		large := row.hasMore(l.large)
		if ended = got > 0 && s.remaining != 0 && sink.Size()-start+row.size(large) > l.maxBytes; ended {
			return false // it begins the next batch
		}
		got++
		s.Fingerprint ^= row.fingerprint
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
		sink.Event(row.id, row.name, row.description, row.at)
		if large {
			s.rsvps = &rsvpState{rows: firstRSVPs}
		} else if len(row.usernames) > 0 {
			sink.Usernames(row.usernames)
		}
		ended = s.rsvps != nil
		return !ended
	})
	if err != nil {
		return err
	}
	if got == 0 && caller != (Caller{}) {
		if err := caller.check(tx); err != nil {
			return err
		}
	}
	s.More = s.More || beyond
	s.Done = beyond || got < want && !ended
	s.rows = l.resize(s.rows, got, sink.Size()-start, l.maxRows)
	if s.rsvps != nil {
		s.rows = max(2, 2*got)
	}
	return nil
}

// nextRSVPs reads the next RSVPs of the large event at l.Last.
func (l *EventReader) nextRSVPs(tx *gorm.DB, _ Caller, sink EventSink, s *readState) error {
	r := *s.rsvps // the reading of others, who share the beginning, has the same
	if r.until.IsZero() {
		err := scan(tx.Raw(`
			SELECT event_number, created_at FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = ?)
			ORDER BY created_at DESC, user_number DESC LIMIT 1`, s.Last.ID), &r.event, &r.until)
		if errors.Is(err, sql.ErrNoRows) { // everybody has left since, or the event is gone
			s.rsvps = nil
			return nil
		}
		if err != nil {
			return err
		}
	}
	start, got, ended, want := sink.Size(), 0, false, min(r.rows, l.maxRSVPs)
	err := l.store.dialect.rows(tx, l.store.dialect.parameters(`
		SELECT user_number, created_at, username FROM rsvps
		WHERE event_number = ? AND (created_at, user_number) > (?, ?) AND created_at <= ?
		ORDER BY created_at, user_number LIMIT ?`), []any{r.event, r.joinedAt, r.userNumber, r.until, want}, func(row *listRow) (more bool) {
		got++
		sink.Usernames(row.name)
		r.joinedAt, r.userNumber = row.at, row.userNumber
		ended = sink.Size()-start >= l.maxBytes
		return !ended
	})
	if err != nil {
		return err
	}
	if got < want && !ended {
		s.rsvps = nil
		return nil
	}
	r.rows = l.resize(want, got, sink.Size()-start, l.maxRSVPs)
	s.rsvps = &r
	return nil
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
		return l.store.dialect.rows(tx, query, args, func(row *listRow) (more bool) {
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
