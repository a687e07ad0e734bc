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
