package models

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// UserRemoval is what RemoveUser removes.
type UserRemoval struct {
	Block    bool                // the user's identity at its provider can never become a user again
	Events   bool                // the events that the user created go, too
	DryRun   bool                // RemoveUser only counts
	Progress func(RemovedEvents) // called after each batch of events
}

// Removed is the result of RemoveUser.
type Removed struct {
	ID              ID
	Sessions, RSVPs int64
	Events          int64         // created by the user, and now without a creator
	Created         RemovedEvents // created by the user and removed, with UserRemoval.Events
	Identity        *Hash         // of a user who must not come back; nil for others
}

// RemoveUser deletes a user with sessions and RSVPs at once. With Events it first removes the user's events as RemoveEvents does, in
// batches: they may be too many for one transaction. It returns ErrNoUser, or ErrNoIdentity if there is no identity to block. With any
// other error Created counts what is gone already. It returns the error of ctx if ctx ended before.
func (s *Store) RemoveUser(ctx context.Context, who Who, removal UserRemoval) (removed Removed, err error) {
	if removal.Events {
		removed, err = s.removeCreated(ctx, who, removal)
		who = Who{ID: removed.ID}
	}
	if err == nil {
		before := removed.Created
		err = s.transaction(ctx, func(tx *gorm.DB) (err error) {
			removed = Removed{Created: before}
			return s.removeUser(tx, who, removal, &removed)
		})
		s.tell()
		if err != nil {
			removed = Removed{ID: who.ID, Created: before}
		}
	}
	return removed, wrap(err, "remove user")
}

// removeCreated removes the events of a user. It first checks that the user can be removed, because removed events do not come back.
func (s *Store) removeCreated(ctx context.Context, who Who, removal UserRemoval) (removed Removed, err error) {
	var user User
	err = s.read(ctx, func(tx *gorm.DB) (err error) {
		if user, err = readUser(who.in(tx)); err == nil && removal.Block && user.Issuer == nil {
			err = ErrNoIdentity
		}
		return err
	})
	if err != nil {
		return Removed{}, err
	}
	removed.ID = user.ID
	removed.Created, err = s.RemoveEvents(ctx, EventRemoval{EventFilter{Creator: user.ID}, removal.DryRun, removal.Progress})
	return removed, err
}

// removeUser deletes the user, or only counts. Its lock on the user's row waits for a transaction that creates an event of the user, so it
// removes that event, too.
func (s *Store) removeUser(tx *gorm.DB, who Who, removal UserRemoval, removed *Removed) error {
	user, err := readUser(who.in(tx).Clauses(clause.Locking{Strength: "UPDATE"}))
	if err != nil {
		return err
	}
	removed.ID = user.ID
	if removal.Block {
		if removed.Identity = user.IdentityHash(); removed.Identity == nil {
			return ErrNoIdentity
		}
	}
	if removal.Events && !removal.DryRun {
		var last []EventDetails
		query, args := EventFilter{Creator: user.ID}.after(EventDetails{})
		if err := tx.Raw(query, args...).Scan(&last).Error; err != nil {
			return err
		}
		done, err := s.detach(tx, last, time.Time{})
		if err != nil {
			return err
		}
		removed.Created.Events += done.Events
		removed.Created.RSVPs += done.RSVPs
	}
	err = scan(tx.Raw(`
		SELECT (SELECT count(*) FROM sessions WHERE user_id = ?),
			(SELECT count(*) FROM rsvps r WHERE r.user_number = ? AND (
				SELECT e.world_id <> '' AND NOT (CAST(? AS boolean) AND coalesce(e.creator_id = ?, false)) FROM events e WHERE e.number = r.event_number)),
			(SELECT count(*) FROM events WHERE creator_id = ? AND NOT CAST(? AS boolean))`,
		user.ID, user.Number, removal.Events, user.ID, user.ID, removal.Events), &removed.Sessions, &removed.RSVPs, &removed.Events)
	if err != nil || removal.DryRun {
		return err
	}
	if removal.Block {
		if _, err := s.blockIdentity(tx, *removed.Identity); err != nil {
			return err
		}
	}
	return tx.Exec("DELETE FROM users WHERE id = ?", user.ID).Error // foreign keys delete sessions and RSVPs
}
