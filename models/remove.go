package models

import (
	"context"
	"fmt"

	"gorm.io/gorm"
)

// Removed is what RemoveUser has removed.
type Removed struct {
	ID ID
	// Sessions and RSVPs are gone with the user.
	Sessions, RSVPs int64
	// Events are those that the user had created. They stay, without a creator.
	Events int64
	// Identity is what is kept of a user who must not come back, else nil.
	Identity *Hash
}

// RemoveUser deletes a user with sessions and RSVPs, at once. With block the user's identity at its provider
// can become no user again. It returns ErrNoUser, and ErrNoIdentity if there is none to block.
func (s *Store) RemoveUser(ctx context.Context, who Who, block bool) (Removed, error) {
	var removed Removed
	err := s.transaction(ctx, func(tx *gorm.DB) error {
		user, err := lockUser(who.in(tx))
		if err != nil {
			return err
		}
		removed = Removed{ID: user.ID}
		if block {
			if removed.Identity = user.IdentityHash(); removed.Identity == nil {
				return ErrNoIdentity
			}
			if _, err := s.blockIdentity(tx, *removed.Identity); err != nil {
				return err
			}
		}
		err = scan(tx.Raw(`
			SELECT (SELECT count(*) FROM sessions WHERE user_id = ?), (
					SELECT count(*) FROM rsvps r JOIN events e ON e.number = r.event_number WHERE r.user_number = ? AND e.world_id <> ''
				),
				(SELECT count(*) FROM events WHERE creator_id = ?)`, user.ID, user.Number, user.ID),
			&removed.Sessions, &removed.RSVPs, &removed.Events)
		if err != nil {
			return err
		}
		return tx.Exec("DELETE FROM users WHERE id = ?", user.ID).Error // the database does the rest
	})
	s.tell()
	if err != nil {
		return Removed{}, fmt.Errorf("remove user: %w", err)
	}
	return removed, nil
}
