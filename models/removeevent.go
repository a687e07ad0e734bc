package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/schema"
)

// RemovedEvents counts the events that were removed so far, or would be, and the RSVPs that they had just before.
type RemovedEvents struct{ Events, RSVPs int64 }

// detached is the world of removed events, which no request can name. A removed event has a new id that nobody knows, and neither texts nor
// a creator. SweepEvents deletes it later: it may have a hundred thousand RSVPs, and joins and leaves would wait for that transaction.
const detached = ""

// detach is the statement that removes the events of a condition, which follows it.
func (d dialect) detach() string {
	return "UPDATE events SET id = " + d.randomID + ", world_id = '" + detached + "', creator_id = NULL, name = '', description = '', request_hash = NULL WHERE"
}

const maxDetached = 100 // events that one transaction removes

// RemoveEvent removes an event with its RSVPs. One statement hides it from everybody. It returns ErrNoEvent.
func (s *Store) RemoveEvent(ctx context.Context, id ID) (RemovedEvents, error) {
	return s.RemoveEventOf(ctx, id, time.Time{})
}

// RemoveEventOf is RemoveEvent for an event that was created at a time or before it; zero means any time. It returns ErrNoEvent for a later
// event, to which the same key gave the same id.
func (s *Store) RemoveEventOf(ctx context.Context, id ID, created time.Time) (removed RemovedEvents, err error) {
	var event EventDetails
	err = s.read(ctx, func(tx *gorm.DB) error {
		event = EventDetails{}
		return event.read(tx, id)
	})
	if err == nil && !created.IsZero() && event.CreatedAt.After(created) {
		err = ErrNoEvent
	}
	if err == nil {
		err = s.detachAll(ctx, []EventDetails{event}, time.Time{}, &removed)
	}
	if err == nil && removed.Events == 0 {
		err = ErrNoEvent // removed since the look-up
	}
	return removed, wrap(err, "remove event %s", id)
}

// EventRemoval is what RemoveEvents removes.
type EventRemoval struct {
	EventFilter
	DryRun   bool                // RemoveEvents only counts
	Progress func(RemovedEvents) // called after each batch
}

// RemoveEvents removes events as RemoveEvent does, in batches with pauses. An interrupted run can be repeated. Also with an error, which is
// that of ctx if ctx has ended, it returns what it has removed.
func (s *Store) RemoveEvents(ctx context.Context, removal EventRemoval) (removed RemovedEvents, err error) {
	err = s.eventBatches(ctx, removal.EventFilter, maxDetached, func(batch []EventDetails) error {
		begin := time.Now()
		var err error
		if removal.DryRun {
			for _, e := range batch {
				removed.Events++
				removed.RSVPs += e.RSVPs
			}
			err = ctx.Err()
		} else if err = s.detachAll(ctx, batch, removal.Before, &removed); err == nil {
			err = rest(ctx, begin)
		}
		removal.Progress(removed)
		return err
	})
	return removed, wrap(err, "remove events")
}

// detachAll is detach in a transaction of its own.
func (s *Store) detachAll(ctx context.Context, events []EventDetails, before time.Time, removed *RemovedEvents) error {
	var done RemovedEvents
	err := s.locking(ctx, idOf(events[0].ID), func(tx *gorm.DB) (err error) {
		done, err = s.detach(tx, events, before)
		return err
	})
	s.tell()
	if err == nil {
		removed.Events += done.Events
		removed.RSVPs += done.RSVPs
	}
	return err
}

// detach removes those of the events that still exist, in one statement. With before it leaves an event that was just moved to that time or
// later. A concurrent list, join or leave sees all of an event or nothing.
func (s *Store) detach(tx *gorm.DB, events []EventDetails, before time.Time) (done RemovedEvents, err error) {
	found, rsvps := make(ids, len(events)), make(map[int64]int64)
	for i, e := range events {
		found[i] = e.ID
		rsvps[e.Number] = e.RSVPs
	}
	query, args := s.dialect.detach()+" id "+s.dialect.anyOf, []any{found}
	if !before.IsZero() {
		query, args = query+" AND scheduled_at < ?", append(args, before)
	}
	var numbers []int64
	if err := tx.Raw(query+" RETURNING number", args...).Scan(&numbers).Error; err != nil {
		return done, err
	}
	for _, number := range numbers {
		done.Events++
		done.RSVPs += rsvps[number]
	}
	return done, nil
}

// maxRest bounds a rest. On a busy machine a batch takes long because it waits, which already leaves room to others.
const maxRest = 250 * time.Millisecond

// rest pauses for three times as long as the work since begin took, at most for maxRest, so that others get three quarters of the database.
// It returns the error of ctx if that ends.
func rest(ctx context.Context, begin time.Time) error {
	return sleep(ctx, min(3*time.Since(begin), maxRest))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// maxSwept bounds the RSVPs that one transaction deletes. They are on different pages: 500 make some megabytes of write-ahead log.
const maxSwept = 500

// SweepEvents deletes removed events of any instance with their RSVPs, in batches with pauses. If ctx ends first it returns its error.
func (s *Store) SweepEvents(ctx context.Context) error {
	var at swept
	for {
		begin := time.Now()
		next := at
		err := s.transaction(ctx, func(tx *gorm.DB) (err error) {
			next, err = s.sweep(tx, at)
			return err
		})
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if at = next; err == nil {
			err = rest(ctx, begin)
		}
		if err != nil {
			return fmt.Errorf("sweep events: %w", err)
		}
	}
}

// swept is the progress of SweepEvents. Each batch begins at the end of the last: while an older transaction is open, PostgreSQL keeps the
// deleted rows, and reading from the start would pass over all of them.
type swept struct {
	events Position // of the last event that is deleted or begun
	// event is the number of the event whose RSVPs are being deleted, or 0; joined and user are the position of the last one deleted.
	event  int64
	joined time.Time
	user   int32
}

// sweep deletes the next batch: whole events with few RSVPs, or some RSVPs of a large one. It returns sql.ErrNoRows when nothing is left,
// and while another instance sweeps.
func (s *Store) sweep(tx *gorm.DB, at swept) (swept, error) {
	if s.file == nil {
		var mine bool
		if err := scan(tx.Raw("SELECT pg_try_advisory_xact_lock(?)", int64(schema.SweepLock)), &mine); err != nil || !mine {
			return at, errors.Join(err, sql.ErrNoRows)
		}
	}
	if at.event != 0 {
		return at.sweepRSVPs(tx)
	}
	var found []struct {
		Number      int64
		ScheduledAt time.Time
		ID          ID
		RSVPs       int `gorm:"column:rsvps"`
	}
	err := tx.Raw(`
		SELECT number, scheduled_at, id, (SELECT count(*) FROM (SELECT 1 FROM rsvps WHERE event_number = e.number LIMIT ?) few) AS rsvps
		FROM events e WHERE world_id = ? AND (scheduled_at, id) > (?, ?) ORDER BY scheduled_at, id LIMIT ?`,
		maxSwept+1, detached, at.events.ScheduledAt, at.events.ID, maxDetached).Scan(&found).Error
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return at, err
	}
	var whole ids
	rsvps := 0
	for _, e := range found {
		if rsvps += e.RSVPs; rsvps > maxSwept {
			break
		}
		whole, at.events = append(whole, e.ID), Position{e.ScheduledAt, e.ID}
	}
	if len(whole) > 0 {
		return at, tx.Exec("DELETE FROM events WHERE id "+s.dialect.anyOf, whole).Error
	}
	return swept{events: Position{found[0].ScheduledAt, found[0].ID}, event: found[0].Number}.sweepRSVPs(tx)
}

// sweepRSVPs deletes the next RSVPs of the current event; the event, too, if fewer than maxSwept are left. It finds the event by its id:
// another process with the same file may have deleted it, and SQLite may have reused its number.
func (at swept) sweepRSVPs(tx *gorm.DB) (swept, error) {
	next := at
	err := scan(tx.Raw(`
		SELECT created_at, user_number FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = ?) AND (created_at, user_number) > (?, ?)
		ORDER BY created_at, user_number LIMIT 1 OFFSET ?`, at.events.ID, at.joined, at.user, maxSwept-1), &next.joined, &next.user)
	if errors.Is(err, sql.ErrNoRows) {
		return swept{events: at.events}, tx.Exec("DELETE FROM events WHERE id = ?", at.events.ID).Error
	}
	if err != nil {
		return at, err
	}
	return next, tx.Exec(`
		DELETE FROM rsvps WHERE event_number = ? AND (created_at, user_number) > (?, ?) AND (created_at, user_number) <= (?, ?)`,
		at.event, at.joined, at.user, next.joined, next.user).Error
}
