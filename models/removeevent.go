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

// RemovedEvents is how many events have been removed so far, or would be, and how many RSVPs they had just before.
type RemovedEvents struct{ Events, RSVPs int64 }

// detached is the world of events that are removed, which no request can name. Such an event has an id that nobody knows, and neither
// texts nor a creator. SweepEvents deletes it with its RSVPs.
const detached = ""

// maxDetached is how many events one transaction removes.
const maxDetached = 100

// RemoveEvent removes an event with its RSVPs: in one statement it is gone for everybody. It returns ErrNoEvent.
func (s *Store) RemoveEvent(ctx context.Context, id ID) (removed RemovedEvents, err error) {
	var event EventDetails
	err = s.read(ctx, func(tx *gorm.DB) error {
		event = EventDetails{}
		return event.read(tx, id)
	})
	if err == nil {
		err = s.detachAll(ctx, []EventDetails{event}, time.Time{}, &removed)
	}
	if err == nil && removed.Events == 0 {
		err = ErrNoEvent // since it was looked up
	}
	if err != nil {
		return removed, fmt.Errorf("remove event %s: %w", id, err)
	}
	return removed, nil
}

// EventRemoval says what RemoveEvents removes.
type EventRemoval struct {
	EventFilter
	// DryRun only counts.
	DryRun bool
	// Progress is called after each batch.
	Progress func(RemovedEvents)
}

// RemoveEvents removes events as RemoveEvent does, in batches and with rests between them. It may be interrupted and run again. It
// returns what it has removed, also with an error, which is that of ctx if that has ended.
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
	if err != nil {
		return removed, fmt.Errorf("remove events: %w", err)
	}
	return removed, nil
}

// detachAll is detach in a transaction of its own.
func (s *Store) detachAll(ctx context.Context, events []EventDetails, before time.Time, removed *RemovedEvents) error {
	var done RemovedEvents
	err := s.transaction(ctx, func(tx *gorm.DB) (err error) {
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

// detach removes events in one statement, unless they are gone. Where before is not zero, those stay that somebody has just moved to
// then or later. A list, a join or a leave that runs meanwhile sees them, or does not.
func (s *Store) detach(tx *gorm.DB, events []EventDetails, before time.Time) (done RemovedEvents, err error) {
	found, rsvps := make(ids, len(events)), make(map[int64]int64)
	for i, e := range events {
		found[i] = e.ID
		rsvps[e.Number] = e.RSVPs
	}
	query, args := "UPDATE events SET id = "+s.dialect.randomID+", world_id = ?, creator_id = NULL, name = '', description = '' WHERE id "+s.dialect.anyOf, []any{detached, found}
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

// maxRest bounds a rest. On a machine that is busy the work of a batch is mostly waiting, which leaves room to others itself.
const maxRest = 250 * time.Millisecond

// rest leaves the database to others for three times as long as the work since begin has taken, maxRest at most. It returns
// the error of ctx.
func rest(ctx context.Context, begin time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(3*time.Since(begin), maxRest)):
		return nil
	}
}

const (
	// maxSwept is how many RSVPs one transaction deletes. Each stands on pages of its own in the indexes, so that is some megabytes
	// of write-ahead log.
	maxSwept = 500
)

// SweepEvents deletes the removed events with their RSVPs, whoever has removed them, in batches with rests between them. It returns
// the error of ctx if that ends before all is deleted.
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

// swept is how far SweepEvents is. Each batch begins where the last one ended: while any older transaction is open, a reading from
// the start would pass over all that is deleted already.
type swept struct {
	// events is the position of the last event that is deleted, or begun.
	events Position
	// event is the number of one that is begun, else 0, and joined and user say which of its RSVPs was the last.
	event  int64
	joined time.Time
	user   int32
}

// sweep deletes the next batch. It returns sql.ErrNoRows once nothing is left, or while another instance deletes.
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

// sweepRSVPs deletes the next RSVPs of the event that is begun. With fewer than maxSwept left the event goes, too. It finds the event by
// its id: another process that has the same file may have deleted it, and SQLite has given its number to another event then.
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
