package models

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"
)

// Caller is who asks: a user, and the session that the request comes from. The zero SessionID stands for a JWT of
// another issuer, which names no session and needs only its user.
type Caller struct{ UserID, SessionID ID }

// isActive is the condition that the user exists and the session is not revoked. A session that is gone counts as revoked.
// A user who is blocked has none left; only without a session is it looked up.
func (c Caller) isActive() expr {
	if c.SessionID.IsZero() {
		return expr{"EXISTS (SELECT 1 FROM users WHERE id = ? AND blocked_at IS NULL)", []any{c.UserID}}
	}
	return expr{
		sql:  "EXISTS (SELECT 1 FROM sessions WHERE id = ? AND user_id = ? AND revoked_at IS NULL)",
		vars: []any{c.SessionID, c.UserID},
	}
}

// check returns ErrSignedOut unless the caller is active.
func (c Caller) check(tx *gorm.DB) error {
	var active bool
	err := scan(raw(tx, "SELECT ?", c.isActive()), &active)
	if err == nil && !active {
		return ErrSignedOut
	}
	return err
}

// checkEvent returns ErrSignedOut unless the caller is active, and else ErrNoEvent unless there is such an event.
func (c Caller) checkEvent(tx *gorm.DB, event ID) error {
	var active, exists bool
	err := scan(raw(tx, "SELECT ?, EXISTS (SELECT 1 FROM events WHERE id = ?)", c.isActive(), event), &active, &exists)
	switch {
	case err != nil:
		return err
	case !active:
		return ErrSignedOut
	case !exists:
		return ErrNoEvent
	}
	return nil
}

// ids is a set as one parameter: with IN and a list every length would be another statement to prepare.
type ids []ID

// Value implements driver.Valuer as a JSON array of texts. It never fails.
func (s ids) Value() (driver.Value, error) {
	text, err := json.Marshal([]ID(s))
	return string(text), err
}

// ActiveCallers returns which of the callers are users who exist and are not blocked, with sessions that are not revoked, in one statement.
func (s *Store) ActiveCallers(ctx context.Context, callers []Caller) (map[Caller]bool, error) {
	active := make(map[Caller]bool, len(callers))
	if len(callers) == 0 {
		return active, nil
	}
	users, sessions := ids{}, ids{}
	for _, c := range callers {
		if c.SessionID.IsZero() {
			users = append(users, c.UserID)
		} else {
			sessions = append(sessions, c.SessionID)
		}
	}
	var found []Caller
	err := s.read(ctx, func(tx *gorm.DB) error {
		return tx.Raw(`
			SELECT user_id, id AS session_id FROM sessions WHERE revoked_at IS NULL AND id `+s.dialect.anyOf+`
			UNION ALL SELECT id, NULL FROM users WHERE blocked_at IS NULL AND id `+s.dialect.anyOf, sessions, users).Scan(&found).Error
	})
	if err != nil {
		return nil, fmt.Errorf("look up callers: %w", err)
	}
	exists := make(map[Caller]bool, len(found))
	for _, c := range found {
		exists[c] = true
	}
	for _, c := range callers {
		if exists[c] { // else the session may be another user's
			active[c] = true
		}
	}
	return active, nil
}
