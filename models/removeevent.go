package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// RemovedEvents is how many events a removal has deleted so far, or would delete, and how many RSVPs these have, or had.
type RemovedEvents struct{ Events, RSVPs int64 }

const (
	// maxRemoved is how many RSVPs one transaction deletes. Each stands on pages of its own in the indexes, so that is some
	// megabytes of write-ahead log.
	maxRemoved = 500
	// detached is the world of events that are removed already, but for their RSVPs. No request can name it, and such an
	// event has an id that nobody knows.
	detached = ""
)

// RemoveEvent deletes an event with its RSVPs. It is gone for everybody at once; RSVPs beyond maxRemoved are deleted after
// that, in batches. It returns ErrNoEvent, and the error of ctx if that ends before all is deleted.
func (s *Store) RemoveEvent(ctx context.Context, id ID) (RemovedEvents, error) {
	return s.removeEvent(ctx, id, endOfTime)
}

// endOfTime is later than any event: those have milliseconds at most. SQLite compares texts, so it has four digits of a year.
var endOfTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// removeEvent is RemoveEvent for an event that is scheduled before a time; it returns ErrNoEvent for a later one.
func (s *Store) removeEvent(ctx context.Context, id ID, before time.Time) (RemovedEvents, error) {
	var removed RemovedEvents
	var rsvps int64
	err := s.transaction(ctx, func(tx *gorm.DB) error {
		err := scan(tx.Raw("SELECT (SELECT count(*) FROM rsvps WHERE event_number = e.number) FROM events e WHERE id = ?", id), &rsvps)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoEvent
		}
		if err != nil {
			return err
		}
		const unchanged = " WHERE id = ? AND scheduled_at < ?" // since it was looked up
		var res *gorm.DB
		if rsvps > maxRemoved {
			res = tx.Exec("UPDATE events SET id = ?, world_id = ?"+unchanged, newID(), detached, id, before)
		} else {
			res = tx.Exec("DELETE FROM events"+unchanged, id, before)
		}
		if res.Error == nil && res.RowsAffected == 0 {
			return ErrNoEvent
		}
		return res.Error
	})
	s.tell()
	if err == nil {
		removed = RemovedEvents{1, rsvps}
		if rsvps > maxRemoved {
			err = s.sweepDetached(ctx)
		}
	}
	if err != nil {
		return removed, fmt.Errorf("remove event %s: %w", id, err)
	}
	return removed, nil
}

// sweepDetached deletes what is left of events that are removed, also of those whose removal was interrupted.
func (s *Store) sweepDetached(ctx context.Context) error {
	for last := (rsvpKey{}); ; {
		begin := time.Now()
		var next rsvpKey
		err := s.transaction(ctx, func(tx *gorm.DB) (err error) {
			next, err = deleteDetached(tx, last)
			return err
		})
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		last = next
		if err := rest(ctx, begin); err != nil {
			return err
		}
	}
}

// rsvpKey is where an RSVP stands among those of its event, and zero before the first.
type rsvpKey struct {
	event int64
	at    time.Time
	user  int32
}

// deleteDetached deletes the next RSVPs of a removed event, and returns the last of them. With fewer than maxRemoved left the
// event goes, too. Each batch begins where the last one ended: while any older transaction is open, a reading from the
// start would pass over all that is deleted already. It returns sql.ErrNoRows once nothing is left.
func deleteDetached(tx *gorm.DB, last rsvpKey) (rsvpKey, error) {
	next := rsvpKey{}
	if err := scan(tx.Raw("SELECT number FROM events WHERE world_id = ? LIMIT 1", detached), &next.event); err != nil {
		return rsvpKey{}, err
	}
	if last.event != next.event {
		last = rsvpKey{event: next.event}
	}
	err := scan(tx.Raw(`
		SELECT created_at, user_number FROM rsvps WHERE event_number = ? AND (created_at, user_number) > (?, ?)
		ORDER BY created_at, user_number LIMIT 1 OFFSET ?`, last.event, last.at, last.user, maxRemoved-1), &next.at, &next.user)
	if errors.Is(err, sql.ErrNoRows) {
		return rsvpKey{}, tx.Exec("DELETE FROM events WHERE number = ?", last.event).Error
	}
	if err != nil {
		return rsvpKey{}, err
	}
	return next, tx.Exec(`
		DELETE FROM rsvps WHERE event_number = ? AND (created_at, user_number) > (?, ?) AND (created_at, user_number) <= (?, ?)`,
		last.event, last.at, last.user, next.at, next.user).Error
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

// EventPrune selects what PruneEvents deletes: events that are scheduled before a time.
type EventPrune struct {
	Before time.Time
	// World is the only world that counts, unless it is empty.
	World string
	// DryRun only counts.
	DryRun bool
	// Progress is called after each batch.
	Progress func(RemovedEvents)
}

// prunable is an event that PruneEvents has found.
type prunable struct {
	ID          ID
	WorldID     string
	ScheduledAt time.Time
	RSVPs       int64 `gorm:"column:rsvps"`
}

// PruneEvents deletes events with their RSVPs, each event at once, in batches of at most maxRemoved RSVPs where no single
// event has more, and with rests between them. It may be interrupted and run again. It returns what it has deleted, also with
// an error, which is that of ctx if that has ended.
func (s *Store) PruneEvents(ctx context.Context, prune EventPrune) (removed RemovedEvents, err error) {
	if !prune.DryRun {
		err = s.sweepDetached(ctx)
	}
	var last prunable
	for err == nil {
		begin := time.Now()
		var batch []prunable
		if batch, err = s.prunable(ctx, prune, last); err != nil || len(batch) == 0 {
			break
		}
		last = batch[len(batch)-1]
		if prune.DryRun {
			for _, e := range batch {
				removed.Events++
				removed.RSVPs += e.RSVPs
			}
			err = ctx.Err()
		} else if err = s.removeBatch(ctx, prune, batch, &removed); err == nil {
			err = rest(ctx, begin)
		}
		prune.Progress(removed)
	}
	if err != nil {
		return removed, fmt.Errorf("prune events: %w", err)
	}
	return removed, nil
}

// prunable returns the next events after last, as many as one transaction deletes, or one. None means the end.
func (s *Store) prunable(ctx context.Context, prune EventPrune, last prunable) (batch []prunable, err error) {
	err = s.read(ctx, func(tx *gorm.DB) error {
		batch = nil
		query := tx.Table("events e").
			Select("id, world_id, scheduled_at, (SELECT count(*) FROM rsvps WHERE event_number = e.number) AS rsvps").
			Where("scheduled_at < ? AND world_id <> ?", prune.Before, detached)
		if prune.World != "" {
			query = query.Where("world_id = ?", prune.World)
		}
		if !last.ID.IsZero() {
			query = query.Where("(world_id, scheduled_at, id) > (?, ?, ?)", last.WorldID, last.ScheduledAt, last.ID)
		}
		return query.Order("world_id, scheduled_at, id").Limit(100).Scan(&batch).Error
	})
	var rsvps int64
	for i, e := range batch {
		if rsvps += e.RSVPs; i > 0 && rsvps > maxRemoved && !prune.DryRun {
			return batch[:i], err
		}
	}
	return batch, err
}

// removeBatch deletes the events of a batch, unless somebody has just moved them to a later time.
func (s *Store) removeBatch(ctx context.Context, prune EventPrune, batch []prunable, removed *RemovedEvents) error {
	if batch[0].RSVPs > maxRemoved {
		large, err := s.removeEvent(ctx, batch[0].ID, prune.Before)
		removed.Events += large.Events
		removed.RSVPs += large.RSVPs
		if errors.Is(err, ErrNoEvent) {
			return nil
		}
		return err
	}
	found := make(ids, len(batch))
	for i, e := range batch {
		found[i] = e.ID
	}
	var events, rsvps int64
	err := s.transaction(ctx, func(tx *gorm.DB) error {
		selected := "id " + s.dialect.anyOf + " AND scheduled_at < ?"
		err := scan(tx.Raw("SELECT count(*) FROM rsvps WHERE event_number IN (SELECT number FROM events WHERE "+selected+")",
			found, prune.Before), &rsvps)
		if err != nil {
			return err
		}
		res := tx.Exec("DELETE FROM events WHERE "+selected, found, prune.Before)
		events = res.RowsAffected
		return res.Error
	})
	s.tell()
	if err == nil {
		removed.Events += events
		removed.RSVPs += rsvps
	}
	return err
}
