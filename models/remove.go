package models

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// UserRemoval says what RemoveUser removes.
type UserRemoval struct {
	// Block means that the user's identity at its provider can never become a user again.
	Block bool
	// Events means that the events that the user created go, too.
	Events bool
	// DryRun means that RemoveUser only counts.
	DryRun bool
	// Progress is called after each batch of events.
	Progress func(RemovedEvents)
}

// Removed is what RemoveUser has removed.
type Removed struct {
	ID ID
	// Sessions and RSVPs are gone with the user.
	Sessions, RSVPs int64
	// Events are those that the user created and that stay, without a creator.
	Events int64
	// Created are those that the user created and that are gone, with UserRemoval.Events.
	Created RemovedEvents
	// Identity is what is kept of a user who must not come back; nil for others.
	Identity *Hash
}

// RemoveUser deletes a user with sessions and RSVPs at once. With Events it first removes the user's events as
// RemoveEvents does, in batches: a user may have so many that one transaction would keep everybody waiting. It
// returns ErrNoUser, and ErrNoIdentity if there is no identity to block.
//
// With any other error Created says what is gone already. The error is that of ctx if ctx ended before the user
// was removed.
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

// removeCreated removes the events of a user. First it checks that the user can be removed, because removed
// events do not come back.
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

// removeUser deletes the user, or only counts. Its lock on the user's row waits for a transaction in which the
// user creates an event just then, so it removes that event, too.
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
