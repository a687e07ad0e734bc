package models

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"gorm.io/gorm"
)

// User is somebody who signs in. There is one current refresh token per user, kept as its SHA-256.
type User struct {
	ID        ID        `gorm:"primaryKey;not null"`
	Username  string    `gorm:"not null;unique"`
	CreatedAt time.Time `gorm:"not null"`

	RefreshHash      []byte
	RefreshExpiresAt *time.Time
	// PreviousHash is the hash of the value that the last refresh replaced, at RotatedAt.
	PreviousHash []byte
	RotatedAt    *time.Time

	// Issuer and Subject say who the user is at an identity provider (OpenID Connect Core 1.0 section 2). Both are nil for
	// a user who never signed in there.
	Issuer, Subject *string
}

// Identity is a user as a session knows them.
type Identity struct {
	ID       ID
	Username string
}

// Hash is the SHA-256 of a refresh token.
type Hash [32]byte

// Value implements driver.Valuer. It never fails.
func (h Hash) Value() (driver.Value, error) { return h[:], nil }

// ValidUsername reports whether name is 1 to 100 code points of valid UTF-8, not only white space, without control
// characters.
func ValidUsername(name string) bool {
	visible := false
	for _, r := range name {
		if unicode.IsControl(r) {
			return false
		}
		visible = visible || !unicode.IsSpace(r)
	}
	return visible && utf8.ValidString(name) && utf8.RuneCountInString(name) <= 100
}

// AddUser stores a new user. It returns ErrUsername or ErrUserExists.
func (s *Store) AddUser(ctx context.Context, username string) (Identity, error) {
	if !ValidUsername(username) {
		return Identity{}, fmt.Errorf("add user: %w", ErrUsername)
	}
	user := User{ID: newID(), Username: username, CreatedAt: s.now().UTC().Truncate(time.Microsecond)}
	err := s.write(ctx, func(tx *gorm.DB) error { return tx.Create(&user).Error })
	if errors.Is(err, errDuplicate) {
		err = ErrUserExists
	}
	if err != nil {
		return Identity{}, fmt.Errorf("add user: %w", err)
	}
	return Identity{user.ID, username}, nil
}

// ids is a set as one parameter: with IN and a list every length would be another statement to prepare.
type ids []ID

// Value implements driver.Valuer as a JSON array of texts. It never fails.
func (s ids) Value() (driver.Value, error) {
	text, err := json.Marshal([]ID(s))
	return string(text), err
}

// ExistingUsers returns which of these users exist.
func (s *Store) ExistingUsers(ctx context.Context, users []ID) (map[ID]bool, error) {
	var found []ID
	err := s.read(ctx, func(tx *gorm.DB) error {
		return tx.Raw("SELECT id FROM users WHERE id "+s.dialect.anyOf, ids(users)).Scan(&found).Error
	})
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	exists := make(map[ID]bool, len(found))
	for _, id := range found {
		exists[id] = true
	}
	return exists, nil
}

// SignIn makes token the user's current refresh token until expires, which ends the user's earlier session and
// forgets the value that it replaced. With create it makes a user who does not exist; else it returns ErrNoUser.
func (s *Store) SignIn(ctx context.Context, username string, create bool, token Hash, expires time.Time) (Identity, error) {
	if !ValidUsername(username) {
		return Identity{}, fmt.Errorf("sign in: %w", ErrUsername)
	}
	identity := Identity{Username: username}
	err := s.write(ctx, func(tx *gorm.DB) error {
		if !create {
			return scan(tx.Raw(`
				UPDATE users SET refresh_hash = ?, refresh_expires_at = ?, previous_hash = NULL, rotated_at = NULL
				WHERE username = ? RETURNING id`,
				token, expires.UTC(), username), &identity.ID)
		}
		return scan(tx.Raw(`
			INSERT INTO users (id, username, created_at, refresh_hash, refresh_expires_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (username) DO UPDATE SET refresh_hash = excluded.refresh_hash,
				refresh_expires_at = excluded.refresh_expires_at, previous_hash = NULL, rotated_at = NULL
			RETURNING id`,
			newID(), username, s.timestamp(), token, expires.UTC()), &identity.ID)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoUser
	}
	if err != nil {
		return Identity{}, fmt.Errorf("sign in: %w", err)
	}
	return identity, nil
}

// RefreshSession replaces the refresh token old, which then is spent, by next, valid until expires. With a user, old must
// be theirs; the zero ID asks nothing. One conditional UPDATE decides: of any number of concurrent calls with the same
// old, over any number of instances, exactly one succeeds. The others get ErrRefreshToken and change nothing; a value that
// was replaced leeway or longer ago revokes the user's current token and is ErrReused, with the user's id.
func (s *Store) RefreshSession(ctx context.Context, user ID, old, next Hash, expires time.Time, leeway time.Duration) (Identity, error) {
	var identity Identity
	err := s.write(ctx, func(tx *gorm.DB) error {
		now := s.now().UTC()
		andUser, args := "", []any{next, expires.UTC(), old, now, old, now}
		if !user.IsZero() {
			andUser, args = " AND id = ?", append(args, user)
		}
		return scan(tx.Raw(`
			UPDATE users SET refresh_hash = ?, refresh_expires_at = ?, previous_hash = ?, rotated_at = ?
			WHERE refresh_hash = ? AND refresh_expires_at > ?`+andUser+` RETURNING id, username`, args...),
			&identity.ID, &identity.Username)
	})
	if errors.Is(err, sql.ErrNoRows) {
		identity.ID, err = s.revokeIfReused(ctx, user, old, leeway)
	}
	if err != nil {
		return identity, fmt.Errorf("refresh session: %w", err)
	}
	return identity, nil
}

// revokeIfReused returns why old lost: ErrRefreshToken, or ErrReused with the user's id after revoking.
func (s *Store) revokeIfReused(ctx context.Context, user ID, old Hash, leeway time.Duration) (revoked ID, err error) {
	err = s.write(ctx, func(tx *gorm.DB) error {
		andUser, args := "", []any{old, s.now().UTC().Add(-leeway)}
		if !user.IsZero() {
			andUser, args = " AND id = ?", append(args, user)
		}
		return scan(tx.Raw(`
			UPDATE users SET refresh_hash = NULL, refresh_expires_at = NULL, previous_hash = NULL, rotated_at = NULL
			WHERE previous_hash = ? AND rotated_at <= ?`+andUser+` RETURNING id`, args...), &revoked)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ID{}, ErrRefreshToken
	case err != nil:
		return ID{}, err
	}
	return revoked, ErrReused
}

// SignOut revokes the session of the user whose current refresh token is token, else, when there is none, the one
// of user. Either may be zero. Nobody to sign out is no error.
func (s *Store) SignOut(ctx context.Context, token Hash, user ID) error {
	err := s.write(ctx, func(tx *gorm.DB) error {
		const revoke = "UPDATE users SET refresh_hash = NULL, refresh_expires_at = NULL, previous_hash = NULL, rotated_at = NULL WHERE "
		res := tx.Exec(revoke+"refresh_hash = ?", token)
		if res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		return tx.Exec(revoke+"id = ?", user).Error
	})
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	return nil
}
