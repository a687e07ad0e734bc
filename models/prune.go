package models

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// clockSkew is how far the clocks of instances may be apart: a JWT lives so much longer somewhere.
const clockSkew = time.Minute

// noMaxAge is longer than any session has lived.
const noMaxAge = 100 * 365 * 24 * time.Hour

// PruneSessions deletes the sessions of which nothing is left: no refresh token and no JWT is valid any more. It looks at
// a thousand rows after the one with the id after, and returns the last one's id, to go on with, or zero at the end of
// the table. No index helps it, because a refresh would have to keep that.
func (s *Store) PruneSessions(ctx context.Context, after ID) (last ID, deleted int64, err error) {
	last, err = s.endOfBatch(ctx, after)
	if err == nil && !last.IsZero() {
		err = s.write(ctx, func(tx *gorm.DB) error {
			const over = -TokenTTL - clockSkew
			maxAge := cmp.Or(s.policy.MaxAge, noMaxAge)
			res := tx.Exec(`
				DELETE FROM sessions WHERE id > ? AND id <= ?
					AND (expires_at < ? OR created_at < ? OR token_hash IS NULL AND refreshed_at < ?)`,
				after, last, s.after(over), s.after(over-maxAge), s.after(over))
			deleted = res.RowsAffected
			return res.Error
		})
	}
	if err != nil {
		return ID{}, 0, fmt.Errorf("prune sessions: %w", err)
	}
	return last, deleted, nil
}
