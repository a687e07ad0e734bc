package models

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/names"
)

// RenameUser calls a user to from now on, in all lists at once, and returns them as they were. JWTs name them so from their session's
// next refresh on. It returns ErrNoUser, ErrUsername, ErrUserExists or ErrUserAlike.
//
// The operator may give any name that is free. Only a user of an identity provider may not look like somebody else, as at
// the first sign-in: those names are what people are told apart by who chose them themselves.
func (s *Store) RenameUser(ctx context.Context, who Who, to string) (Identity, error) {
	if !names.Valid(to) {
		return Identity{}, fmt.Errorf("rename user: %w", ErrUsername)
	}
	var user User
	err := s.transaction(ctx, func(tx *gorm.DB) (err error) {
		if user, err = lockUser(who.in(tx)); err != nil {
			return err
		}
		renamed := s.newUser(to)
		if err := refuseTaken(tx, user, renamed); err != nil {
			return err
		}
		err = tx.Model(&User{}).Where("id = ?", user.ID).Updates(map[string]any{
			"username": to, "folded": renamed.Folded, "skeleton": renamed.Skeleton, // the database does the same in rsvps
		}).Error
		if errors.Is(dberr.Classify(err), dberr.ErrDuplicate) { // taken since
			return ErrUserExists
		}
		return err
	})
	s.tell()
	if err != nil {
		return Identity{}, fmt.Errorf("rename user: %w", err)
	}
	return Identity{user.ID, user.Username}, nil
}

// refuseTaken returns ErrUserExists if somebody else than user has the name of renamed, and ErrUserAlike if it looks like
// somebody else's and must not. Unique keys see to those who come at the same time.
func refuseTaken(tx *gorm.DB, user, renamed User) error {
	var taken, alike bool
	err := scan(tx.Raw("SELECT EXISTS (SELECT 1 FROM users WHERE username = ? AND id <> ?)", renamed.Username, user.ID), &taken)
	if err != nil {
		return err
	}
	if taken {
		return ErrUserExists
	}
	if user.Issuer == nil {
		return nil
	}
	if alike, err = looksGiven(tx, renamed); err == nil && !alike {
		err = scan(tx.Raw(`SELECT EXISTS (SELECT 1 FROM users WHERE issuer IS NOT NULL AND folded = ? AND id <> ?)
			OR EXISTS (SELECT 1 FROM users WHERE issuer IS NOT NULL AND skeleton = ? AND id <> ?)`,
			*renamed.Folded, user.ID, *renamed.Skeleton, user.ID), &alike)
	}
	if err == nil && alike {
		err = ErrUserAlike
	}
	return err
}
