package models

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// EventDetails is an event as the operator sees it.
type EventDetails struct {
	Event
	Creator *string // the username; nil once the creator's account is gone
	RSVPs   int64   `gorm:"column:rsvps"` // how many
}

const eventDetails = `
	SELECT e.id, e.world_id, e.creator_id, e.name, e.description, e.scheduled_at, e.created_at, u.username AS creator,
		(SELECT count(*) FROM rsvps WHERE event_number = e.number) AS rsvps
	FROM events e LEFT JOIN users u ON u.id = e.creator_id`

// batchOfEvents is how many events are read at once.
const batchOfEvents = 500

// EachEvent calls each with all events of a world, in the order of its list, until it returns an error or ctx ends. It
// reads some at a time: events that are created meanwhile may be among them.
func (s *Store) EachEvent(ctx context.Context, world string, each func(EventDetails) error) error {
	for after := (Position{}); ; {
		var events []EventDetails
		err := s.read(ctx, func(tx *gorm.DB) error {
			query, args := eventDetails+" WHERE e.world_id = ?", []any{world}
			if !after.ScheduledAt.IsZero() {
				query, args = query+" AND (e.scheduled_at, e.id) > (?, ?)", append(args, after.ScheduledAt, after.ID)
			}
			return tx.Raw(query+" ORDER BY e.scheduled_at, e.id LIMIT ?", append(args, batchOfEvents)...).Scan(&events).Error
		})
		if err != nil {
			return fmt.Errorf("list events of world %q: %w", world, err)
		}
		for _, e := range events {
			if err := each(e); err != nil {
				return err
			}
			after = Position{e.ScheduledAt, e.ID}
		}
		if len(events) < batchOfEvents {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// FindEvent returns an event and its RSVPs in the order of joining, at one moment. It returns ErrNoEvent.
func (s *Store) FindEvent(ctx context.Context, id ID) (event EventDetails, rsvps []RSVP, err error) {
	err = s.snapshot(ctx, func(tx *gorm.DB) error {
		event, rsvps = EventDetails{}, nil
		if err := event.read(tx, id); err != nil {
			return err
		}
		return tx.Where("event_number = (SELECT number FROM events WHERE id = ?)", id).
			Order("created_at, user_number").Find(&rsvps).Error
	})
	if err != nil {
		return EventDetails{}, nil, fmt.Errorf("find event %s: %w", id, err)
	}
	return event, rsvps, nil
}

// read returns ErrNoEvent.
func (e *EventDetails) read(tx *gorm.DB, id ID) error {
	res := tx.Raw(eventDetails+" WHERE e.id = ?", id).Scan(e)
	if res.Error == nil && res.RowsAffected == 0 {
		return ErrNoEvent
	}
	return res.Error
}

// EventEdit is what EditEvent changes: what is not nil. The texts and the time must fit the contract.
type EventEdit struct {
	Name, Description *string
	ScheduledAt       *time.Time
}

// EditEvent changes an event, whose id and RSVPs stay, and returns it. It returns ErrNoEvent.
func (s *Store) EditEvent(ctx context.Context, id ID, edit EventEdit) (EventDetails, error) {
	changes := make(map[string]any)
	if edit.Name != nil {
		changes["name"] = *edit.Name
	}
	if edit.Description != nil {
		changes["description"] = *edit.Description
	}
	if edit.ScheduledAt != nil {
		changes["scheduled_at"] = *edit.ScheduledAt
	}
	var event EventDetails
	err := s.transaction(ctx, func(tx *gorm.DB) error {
		event = EventDetails{}
		if err := tx.Model(&Event{}).Where("id = ?", id).Updates(changes).Error; err != nil {
			return err
		}
		return event.read(tx, id)
	})
	if event.WorldID != "" {
		s.tell()
	}
	if err != nil {
		return EventDetails{}, fmt.Errorf("edit event %s: %w", id, err)
	}
	return event, nil
}
