package models

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
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
