package models

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Event is something scheduled in a world. Events never change.
type Event struct {
	ID          string `gorm:"primaryKey"`
	WorldID     string
	CreatorID   *string // nil once the creator's account is gone
	Name        string
	Description string
	ScheduledAt time.Time // UTC, whole milliseconds
	CreatedAt   time.Time
	RSVPs       []RSVP
}

// RSVP is one user's promise to take part in one event. Leaving deletes the row.
type RSVP struct {
	EventID   string `gorm:"primaryKey"`
	UserID    string `gorm:"primaryKey"`
	Username  string // always the user's; the database keeps it so
	CreatedAt time.Time
}

// CreateEvent stores e, which needs WorldID, Name, Description and ScheduledAt, and the RSVP of its creator, both or
// neither, and returns the new event's id. It returns ErrNoUser.
func (s *Store) CreateEvent(ctx context.Context, userID string, e Event) (string, error) {
	if !validID(userID) {
		return "", fmt.Errorf("create event in world %q: %w", e.WorldID, ErrNoUser)
	}
	var err error
	if e.ID == "" {
		if e.ID, err = newID(); err != nil {
			return "", err
		}
	}
	e.CreatorID = &userID
	err = s.do(ctx, s.write, func(t try) error {
		err := s.dialect.create(t, e)
		if errors.Is(classify(err), errForeignKey) {
			err = t.missing(err, userID, "")
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create event in world %q: %w", e.WorldID, err)
	}
	return e.ID, nil
}

// JoinEvent adds the user's RSVP. Joining twice keeps the first. It returns ErrNoUser or ErrNoEvent.
func (s *Store) JoinEvent(ctx context.Context, userID, eventID string) error {
	err := s.do(ctx, s.write, func(t try) error {
		if !validID(userID) || !validID(eventID) {
			return t.checkExist(userID, eventID)
		}
		added, err := t.exec(`
			INSERT INTO rsvps (event_id, user_id, username, created_at)
			SELECT ?, id, username, `+s.dialect.timestamp+` FROM users WHERE id = ?`+s.dialect.keepKey+`
			ON CONFLICT DO NOTHING`,
			eventID, s.writeTime(), userID)
		switch {
		case err == nil && added == 0: // joined before, or no such user
			return t.checkExist(userID, "")
		case errors.Is(classify(err), errForeignKey):
			return t.missing(err, userID, eventID)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("join event %q: %w", eventID, err)
	}
	return nil
}

// LeaveEvent removes the user's RSVP, if there is one. It returns ErrNoUser or ErrNoEvent.
func (s *Store) LeaveEvent(ctx context.Context, userID, eventID string) error {
	err := s.do(ctx, s.write, func(t try) error {
		if validID(userID) && validID(eventID) {
			removed, err := t.exec("DELETE FROM rsvps WHERE event_id = ? AND user_id = ?", eventID, userID)
			if err != nil || removed > 0 {
				return err
			}
		}
		return t.checkExist(userID, eventID)
	})
	if err != nil {
		return fmt.Errorf("leave event %q: %w", eventID, err)
	}
	return nil
}
