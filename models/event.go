package models

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Event is something scheduled in a world. Only the operator changes one.
type Event struct {
	Number      int64  `gorm:"primaryKey;not null"` // stands for the event in RSVPs; the database assigns it, from 1 on
	ID          ID     `gorm:"not null;unique"`
	WorldID     string `gorm:"not null"`
	CreatorID   *ID    // nil once the creator's account is gone
	Name        string `gorm:"not null"`
	Description string `gorm:"not null"`
	// ScheduledAt is in UTC, and a whole number of milliseconds.
	ScheduledAt time.Time `gorm:"not null"`
	CreatedAt   time.Time `gorm:"not null"`
}

// RSVP is one user's promise to take part in one event. Leaving deletes the row.
type RSVP struct {
	EventNumber int64     `gorm:"primaryKey;autoIncrement:false;not null"`
	CreatedAt   time.Time `gorm:"not null"`
	UserNumber  int32     `gorm:"primaryKey;autoIncrement:false;not null"`
	Username    string    `gorm:"not null"` // always the user's; the database keeps it so
}

// CreateEvent stores e, which needs WorldID, Name, Description and ScheduledAt, and the RSVP of its creator, both or
// neither, and returns the new event's id. It returns ErrSignedOut.
func (s *Store) CreateEvent(ctx context.Context, caller Caller, e Event) (ID, error) {
	if e.ID.IsZero() {
		e.ID = newID()
	}
	e.CreatorID = &caller.UserID
	err := s.change(ctx, func(tx *gorm.DB) (changed bool, err error) {
		err = s.dialect.create(tx, caller, e, s.timestamp())
		if violatesKey(err) {
			err = repeatUnless(err, caller.check(tx))
		}
		return !errors.Is(err, ErrSignedOut), err
	})
	if err != nil {
		return ID{}, fmt.Errorf("create event in world %q: %w", e.WorldID, err)
	}
	return e.ID, nil
}

// JoinEvent adds the caller's RSVP. Joining twice keeps the first. It returns ErrSignedOut or ErrNoEvent. No event has the
// number 0, so an event that does not exist violates the foreign key: a subquery costs less than a join.
func (s *Store) JoinEvent(ctx context.Context, caller Caller, event ID) error {
	err := s.change(ctx, func(tx *gorm.DB) (changed bool, err error) {
		res := exec(tx, `
			INSERT INTO rsvps (event_number, created_at, user_number, username)
			SELECT coalesce((SELECT number FROM events WHERE id = ?), 0), ?, number, username FROM users WHERE id = ? AND ?
			ON CONFLICT DO NOTHING`, event, s.timestamp(), caller.UserID, caller.isActive())
		if res.Error == nil && res.RowsAffected == 0 { // joined before, or signed out
			return false, caller.check(tx)
		}
		if !violatesKey(res.Error) {
			return true, res.Error
		}
		return false, repeatUnless(res.Error, caller.checkEvent(tx, event))
	})
	if err != nil {
		return fmt.Errorf("join event %s: %w", event, err)
	}
	return nil
}

// violatesKey reports whether a row is missing that err's statement refers to.
func violatesKey(err error) bool { return errors.Is(classify(err), errForeignKey) }

// repeatUnless returns missing, which says what is gone. Without it the row is there, and the violation came
// from a user who was renamed while the statement ran: then it must be repeated.
func repeatUnless(violation, missing error) error {
	if missing != nil {
		return missing
	}
	return fmt.Errorf("%w: %w", errSerialize, violation)
}

// LeaveEvent removes the caller's RSVP, if there is one. It returns ErrSignedOut or ErrNoEvent.
func (s *Store) LeaveEvent(ctx context.Context, caller Caller, event ID) error {
	err := s.change(ctx, func(tx *gorm.DB) (changed bool, err error) {
		res := exec(tx, `
			DELETE FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = ?)
			AND user_number = (SELECT number FROM users WHERE id = ?) AND ?`, event, caller.UserID, caller.isActive())
		if res.Error == nil && res.RowsAffected == 0 {
			return false, caller.checkEvent(tx, event)
		}
		return true, res.Error
	})
	if err != nil {
		return fmt.Errorf("leave event %s: %w", event, err)
	}
	return nil
}
