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
		return expr{userIsActive, []any{c.UserID}}
	}
	return expr{sessionIsActive, []any{c.SessionID, c.UserID}}
}

// The two conditions of isActive.
const (
	userIsActive    = "EXISTS (SELECT 1 FROM users WHERE id = ? AND blocked_at IS NULL)"
	sessionIsActive = "EXISTS (SELECT 1 FROM sessions WHERE id = ? AND user_id = ? AND revoked_at IS NULL)"
)

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

// ActiveCallers returns which of the callers are users who exist and are not blocked, with sessions that are not revoked, in one
// statement. That selects the others, of whom there are few. Its subqueries are scalar and have no other condition than the
// key, so that PostgreSQL looks each caller up by that, whatever its statistics are.
func (s *Store) ActiveCallers(ctx context.Context, all []Caller) (map[Caller]bool, error) {
	active := make(map[Caller]bool, len(all))
	if len(all) == 0 {
		return active, nil
	}
	var signedOut []int // from 0 on
	err := s.read(ctx, func(tx *gorm.DB) error {
		signedOut = signedOut[:0]
		rows, err := raw(tx, `
			SELECT n - 1 FROM `+s.dialect.callers+` AS caller WHERE NOT coalesce(
				(SELECT user_id = caller.user_id AND revoked_at IS NULL FROM sessions WHERE id = caller.session_id),
				caller.session_id IS NULL AND (SELECT blocked_at IS NULL FROM users WHERE id = caller.user_id), false)`,
			callers(all)).Rows()
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var i int
			if err := rows.Scan(&i); err != nil {
				return err
			}
			signedOut = append(signedOut, i)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("look up callers: %w", err)
	}
	for _, c := range all {
		active[c] = true
	}
	for _, i := range signedOut {
		delete(active, all[i])
	}
	return active, nil
}
