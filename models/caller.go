package models

import (
	"context"
	"database/sql/driver"
	"encoding/json"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Caller is the user who asks, and the session that the request comes from. A JWT of another issuer names no
// session: then SessionID is zero, and only the user is checked.
type Caller struct{ UserID, SessionID ID }

// isActive is the condition that the session exists and is not revoked. Blocking a user revokes all their
// sessions, so that only a caller without a session needs a look at the user.
func (c Caller) isActive() clause.Expr {
	if c.SessionID.IsZero() {
		return gorm.Expr(userIsActive, c.UserID)
	}
	return gorm.Expr(sessionIsActive, c.SessionID, c.UserID)
}

// These are the two conditions of isActive. They are part of the statement that they guard, so that nothing can
// change between the check and the work.
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

// hasJoined reports whether the caller has an RSVP of the event. It returns ErrSignedOut if the caller is not
// active, and otherwise ErrNoEvent if there is no such event.
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

// ids is a set of ids as one parameter. With IN and a list every length would be another statement to prepare.
type ids []ID

// Value implements driver.Valuer as a JSON array of texts. It never fails.
func (s ids) Value() (driver.Value, error) {
	text, err := json.Marshal([]ID(s))
	return string(text), err
}

// callers is a list of callers as one parameter, for dialect.callers.
type callers []Caller

// Value implements driver.Valuer as a JSON array with one array per caller: the user's id, and the session's if
// there is one. It never fails.
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

// signedOut is SQL to stand after FROM: those of the callers in a parameter who are not active. Its subqueries
// are scalar, and their only condition is the key. So PostgreSQL has no plan but to look up each caller by the
// key, even with statistics that are wrong.
func (d dialect) signedOut() string {
	return d.callers + ` AS caller WHERE NOT coalesce(
		(SELECT user_id = caller.user_id AND revoked_at IS NULL FROM sessions WHERE id = caller.session_id),
		caller.session_id IS NULL AND (SELECT blocked_at IS NULL FROM users WHERE id = caller.user_id), false)`
}

// SignedOut returns which of the callers are not active. It is ChangedSince without a list.
func (s *Store) SignedOut(ctx context.Context, callers []Caller) (map[Caller]bool, error) {
	if len(callers) == 0 {
		return nil, nil
	}
	answer, err := s.ChangedSince(ctx, Moment{}, "", callers)
	return answer.SignedOut, err
}
