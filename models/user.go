package models

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/names"
)

// User is somebody who signs in.
type User struct {
	Number    int32     `gorm:"primaryKey;not null"` // stands for the user in RSVPs; the database assigns it
	ID        ID        `gorm:"not null;unique"`
	Username  string    `gorm:"not null;unique"`
	CreatedAt time.Time `gorm:"not null"`
	// Issuer and Subject say who the user is at an identity provider (OpenID Connect Core 1.0 section 2). Both are nil for
	// a user who never signed in there.
	Issuer, Subject *string
	// Folded and Skeleton are foldUsername and usernameSkeleton of the username. They are unique among the users of
	// identity providers.
	Folded, Skeleton *string
	// BlockedAt is since when the user may not sign in; nil means that they may.
	BlockedAt *time.Time
}

// Identity is a user as a session knows them.
type Identity struct {
	ID       ID
	Username string
}

// AddUser stores a new user. It returns ErrUsername or ErrUserExists.
func (s *Store) AddUser(ctx context.Context, username string) (Identity, error) {
	if !names.Valid(username) {
		return Identity{}, fmt.Errorf("add user: %w", ErrUsername)
	}
	user := s.newUser(username)
	err := s.write(ctx, func(tx *gorm.DB) error { return tx.Create(&user).Error })
	if errors.Is(err, dberr.ErrDuplicate) {
		err = ErrUserExists
	}
	if err != nil {
		return Identity{}, fmt.Errorf("add user: %w", err)
	}
	return Identity{user.ID, username}, nil
}

// Who names a user: by ID, or where that is zero by Username. A call that is given an ID finds them also if they are renamed just then.
type Who struct {
	ID       ID
	Username string
}

// in is a query for the user.
func (w Who) in(tx *gorm.DB) *gorm.DB {
	if w.ID.IsZero() {
		return tx.Where("username = ?", w.Username)
	}
	return tx.Where("id = ?", w.ID)
}

// FindUser returns a user, or ErrNoUser.
func (s *Store) FindUser(ctx context.Context, who Who) (Identity, error) {
	var user User
	err := s.read(ctx, func(tx *gorm.DB) error { return who.in(tx).Take(&user).Error })
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = ErrNoUser
	}
	if err != nil {
		return Identity{}, fmt.Errorf("find user: %w", err)
	}
	return Identity{user.ID, user.Username}, nil
}

// newUser is a user who is not stored yet.
func (s *Store) newUser(username string) User {
	folded, skeleton := names.Fold(username), names.Skeleton(username)
	return User{
		ID: newID(), Username: username, CreatedAt: s.now().UTC().Truncate(time.Microsecond),
		Folded: &folded, Skeleton: &skeleton,
	}
}

// SignIn begins a session of a user. With create it makes one who does not exist, if the username is given; else it returns
// ErrNoUser. It returns ErrUsername for an impossible name, and ErrBlocked.
func (s *Store) SignIn(ctx context.Context, who Who, create bool, in SignIn) (Grant, error) {
	if who.ID.IsZero() && !names.Valid(who.Username) {
		return Grant{}, fmt.Errorf("sign in: %w", ErrUsername)
	}
	var grant Grant
	err := s.transaction(ctx, func(tx *gorm.DB) error {
		user, err := lockUser(who.in(tx))
		if create && who.ID.IsZero() && errors.Is(err, ErrNoUser) {
			if err := addMissing(tx, s.newUser(who.Username)); err != nil {
				return err
			}
			user, err = lockUser(who.in(tx))
		}
		if err != nil {
			return err
		}
		grant, err = s.begin(tx, user, in)
		return err
	})
	if err != nil {
		return Grant{}, fmt.Errorf("sign in: %w", err)
	}
	return grant, nil
}

// addMissing stores a user, unless the name or the identity is taken: perhaps by a sign-in at the same time, whose end it
// then has waited for.
func addMissing(tx *gorm.DB, user User) error {
	return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&user).Error
}

// lockUser reads the user that query selects. Nobody else begins a session of the user until the end of the transaction:
// so concurrent sign-ins never leave more sessions than a user may have, and none begins while a user is being blocked. It
// returns ErrNoUser.
func lockUser(query *gorm.DB) (User, error) {
	return readUser(query.Clauses(clause.Locking{Strength: "NO KEY UPDATE"}))
}

// readUser is lockUser without the lock.
func readUser(query *gorm.DB) (User, error) {
	var user User
	res := query.Limit(1).Find(&user)
	if res.Error == nil && res.RowsAffected == 0 {
		return User{}, ErrNoUser
	}
	return user, res.Error
}
