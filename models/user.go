package models

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	// Issuer and Subject identify the user at an identity provider (OpenID Connect Core 1.0 section 2); nil without a sign-in there.
	Issuer, Subject *string
	// Folded and Skeleton are those of package names for the username, and unique among the users of identity providers.
	Folded, Skeleton *string
	BlockedAt        *time.Time // nil means that the user may sign in
}

// Identity is a session's knowledge of its user.
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
	if isUsernameTaken(err) {
		err = ErrUserExists
	}
	return Identity{user.ID, username}, wrap(err, "add user")
}

// isUsernameTaken reports whether an error is that of the unique key of usernames, which each database names differently.
func isUsernameTaken(err error) bool {
	return errors.Is(dberr.Classify(err), dberr.ErrDuplicate) && (strings.Contains(err.Error(), `"users_username_key"`) || strings.HasSuffix(err.Error(), "users.username (2067)"))
}

// Who names a user by ID, or by Username if ID is zero. A call with an ID finds the user even during a renaming.
type Who struct {
	ID       ID
	Username string
}

// id stands for the user in Store.locking.
func (w Who) id() string {
	if w.ID.IsZero() {
		return "name " + w.Username
	}
	return idOf(w.ID)
}

// in is the query for that user.
func (w Who) in(tx *gorm.DB) *gorm.DB {
	if w.ID.IsZero() {
		return tx.Where("username = ?", w.Username)
	}
	return tx.Where("id = ?", w.ID)
}

// FindUser returns a user, or ErrNoUser.
func (s *Store) FindUser(ctx context.Context, who Who) (Identity, error) {
	var user User
	err := s.read(ctx, func(tx *gorm.DB) (err error) {
		user, err = readUser(who.in(tx))
		return err
	})
	return Identity{user.ID, user.Username}, wrap(err, "find user")
}

// newUser is a user who is not stored yet.
func (s *Store) newUser(username string) User {
	folded, skeleton := names.Fold(username), names.Skeleton(username)
	return User{
		ID: newID(), Username: username, CreatedAt: s.options.Now().UTC().Truncate(time.Microsecond),
		Folded: &folded, Skeleton: &skeleton,
	}
}

// SignIn begins a session of a user. With create and a username it makes a user who does not exist; otherwise it returns ErrNoUser. It
// returns ErrUsername for an impossible name, and ErrBlocked.
func (s *Store) SignIn(ctx context.Context, who Who, create bool, in SignIn) (Grant, error) {
	if who.ID.IsZero() && !names.Valid(who.Username) {
		return Grant{}, fmt.Errorf("sign in: %w", ErrUsername)
	}
	var grant Grant
	err := s.locking(ctx, who.id(), func(tx *gorm.DB) error {
		user, err := lockUser(who.in(tx))
		if create && who.ID.IsZero() && errors.Is(err, ErrNoUser) {
			if err := addMissing(tx, s.newUser(who.Username)); err != nil {
				return err
			}
			if user, err = lockUser(who.in(tx)); errors.Is(err, ErrNoUser) {
				return errNotAdded
			}
		}
		if err != nil {
			return err
		}
		grant, err = s.begin(tx, user, in)
		return err
	})
	return grant, wrap(err, "sign in")
}

// errNotAdded is returned if addMissing met another unique key than expected.
var errNotAdded = errors.New("a number or an id of the new user is taken: worldevents check says more")

// addMissing stores a user, unless the name or the identity is taken. The unique key makes it wait for another sign-in that takes it now.
func addMissing(tx *gorm.DB, user User) error {
	return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&user).Error
}

// lockUser reads the user of a query, and locks the row until the end of the transaction. So sign-ins of one user follow each other: they
// never leave more sessions than a user may have, and none begins while the user is being blocked. The lock is NO KEY UPDATE, which joins
// need not wait for: a foreign key takes only KEY SHARE. It returns ErrNoUser.
func lockUser(query *gorm.DB) (User, error) {
	return readUser(query.Clauses(clause.Locking{Strength: "NO KEY UPDATE"}))
}

// FindCaller returns the user of a caller, in the store's timeout, or ErrSignedOut.
func (s *Store) FindCaller(ctx context.Context, caller Caller) (user User, err error) {
	err = s.read(s.WithDeadline(ctx), func(tx *gorm.DB) error {
		user, err = readUser(tx.Where("id = ? AND ?", caller.UserID, caller.isActive()))
		return err
	})
	if errors.Is(err, ErrNoUser) {
		err = ErrSignedOut
	}
	return user, wrap(err, "find user")
}

// readUser is lockUser without the lock. SQLite needs none, because it has one writer.
func readUser(query *gorm.DB) (User, error) {
	var user User
	res := query.Limit(1).Find(&user)
	if res.Error == nil && res.RowsAffected == 0 {
		return User{}, ErrNoUser
	}
	return user, res.Error
}
