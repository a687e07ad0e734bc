package models

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Caller is who asks: a user, and the session that the request comes from. The zero SessionID stands for a JWT of
// another issuer, which names no session and needs only its user.
type Caller struct{ UserID, SessionID ID }

// isActive is the condition that the user exists and the session is not revoked. A session that is gone counts as revoked.
// A user who is blocked has none left; only without a session is it looked up.
func (c Caller) isActive() clause.Expr {
	if c.SessionID.IsZero() {
		return gorm.Expr(userIsActive, c.UserID)
	}
	return gorm.Expr(sessionIsActive, c.SessionID, c.UserID)
}

// The two conditions of isActive.
const (
	userIsActive    = "EXISTS (SELECT 1 FROM users WHERE id = ? AND blocked_at IS NULL)"
	sessionIsActive = "EXISTS (SELECT 1 FROM sessions WHERE id = ? AND user_id = ? AND revoked_at IS NULL)"
)

// check returns ErrSignedOut unless the caller is active.
func (c Caller) check(tx *gorm.DB) error {
	var active bool
	err := scan(tx.Raw("SELECT ?", c.isActive()), &active)
	if err == nil && !active {
		return ErrSignedOut
	}
	return err
}

// hasJoined reports whether the caller has an RSVP of the event. It returns ErrSignedOut unless the caller is active, and else
// ErrNoEvent unless there is such an event.
func (c Caller) hasJoined(tx *gorm.DB, event ID) (joined bool, err error) {
	var active, exists bool
	err = scan(tx.Raw(`SELECT ?, EXISTS (SELECT 1 FROM events WHERE id = ?), EXISTS (
		SELECT 1 FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = ?) AND user_number = (SELECT number FROM users WHERE id = ?))`,
		c.isActive(), event, event, c.UserID), &active, &exists, &joined)
	switch {
	case err != nil:
		return false, err
	case !active:
		return false, ErrSignedOut
	case !exists:
		return false, ErrNoEvent
	}
	return joined, nil
}

// ids is a set as one parameter: with IN and a list every length would be another statement to prepare.
type ids []ID

// Value implements driver.Valuer as a JSON array of texts. It never fails.
func (s ids) Value() (driver.Value, error) {
	text, err := json.Marshal([]ID(s))
	return string(text), err
}

// callers is a list as one parameter, for dialect.callers.
type callers []Caller

// Value implements driver.Valuer as a JSON array with the ids of each caller, the session's left out where there is none. It
// never fails.
func (s callers) Value() (driver.Value, error) {
	b := append(make([]byte, 0, 2+len(s)*len(`["","",]`)+len(s)*2*36), '[')
	for i, c := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = c.UserID.AppendText(append(b, `["`...))
		if !c.SessionID.IsZero() {
			b, _ = c.SessionID.AppendText(append(b, `","`...))
		}
		b = append(b, `"]`...)
	}
	return string(append(b, ']')), nil
}

// signedOut is the SQL, after FROM, for the callers of a parameter who are no users that exist and are not blocked, with sessions
// that are not revoked. Its subqueries are scalar and have no other condition than the key, so that PostgreSQL looks each caller up
// by that, whatever its statistics are.
func (d dialect) signedOut() string {
	return d.callers + ` AS caller WHERE NOT coalesce(
		(SELECT user_id = caller.user_id AND revoked_at IS NULL FROM sessions WHERE id = caller.session_id),
		caller.session_id IS NULL AND (SELECT blocked_at IS NULL FROM users WHERE id = caller.user_id), false)`
}

// SignedOut returns which of the callers are not active, in one statement.
func (s *Store) SignedOut(ctx context.Context, all []Caller) (map[Caller]bool, error) {
	if len(all) == 0 {
		return nil, nil
	}
	var numbers *string
	err := s.read(ctx, func(tx *gorm.DB) error {
		return scan(tx.Raw("SELECT (SELECT "+s.dialect.moments.numbers+" FROM "+s.dialect.signedOut()+")", callers(all)), &numbers)
	})
	if err != nil {
		return nil, fmt.Errorf("look up callers: %w", err)
	}
	return someCallers(all, numbers), nil
}
