package models

import (
	"context"
	"database/sql/driver"
	"encoding/json"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Caller is the user of a request, and its session: zero for a JWT of another issuer, which has none. Then only the user is checked.
type Caller struct{ UserID, SessionID ID }

// isActive is the SQL condition that the caller is active. Blocking a user revokes all their sessions, so checking the session is enough.
func (c Caller) isActive() clause.Expr {
	if c.SessionID.IsZero() {
		return gorm.Expr(userIsActive, c.UserID)
	}
	return gorm.Expr(sessionIsActive, c.UserID, c.SessionID)
}

// The conditions are part of the statements that they guard, so that nothing can change between the check and the work. Their subqueries
// are scalar, so that PostgreSQL looks up the id alone, and never all sessions of a user.
const (
	userIsActive    = "coalesce((SELECT blocked_at IS NULL FROM users WHERE id = ?), false)"
	sessionIsActive = "coalesce((SELECT user_id = ? AND revoked_at IS NULL FROM sessions WHERE id = ?), false)"
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

// ids is a set of ids as one parameter. IN with a list would be another statement to prepare for each length.
type ids []ID

func (s ids) Value() (driver.Value, error) {
	text, err := json.Marshal([]ID(s))
	return string(text), err
}

// callers is a list of callers as one parameter, for dialect.callers.
type callers []Caller

// Value returns a JSON array with one array per caller: the user's id, and the session's if there is one.
func (s callers) Value() (driver.Value, error) {
	all := make([][]ID, len(s))
	for i, c := range s {
		if all[i] = []ID{c.UserID}; !c.SessionID.IsZero() {
			all[i] = append(all[i], c.SessionID)
		}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// signedOut is SQL for FROM: the callers of a parameter who are not active. Its subqueries are scalar with the key as the only condition,
// so PostgreSQL has no plan but to look up the key, even with wrong statistics.
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
