package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// User is somebody who signs in. There is one current refresh token per user, kept as its SHA-256.
type User struct {
	ID        string `gorm:"primaryKey"`
	Username  string
	CreatedAt time.Time

	RefreshHash      []byte
	RefreshExpiresAt *time.Time
	// PreviousHash is the hash of the value that the last refresh replaced, at RotatedAt.
	PreviousHash []byte
	RotatedAt    *time.Time
}

// Identity is a user as a session knows them.
type Identity struct{ ID, Username string }

// Hash is the SHA-256 of a refresh token.
type Hash = [32]byte

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
	id, err := newID()
	if err != nil {
		return Identity{}, err
	}
	err = s.do(ctx, s.write, func(t try) error {
		return t.gorm().Create(&User{ID: id, Username: username, CreatedAt: s.timestamp()}).Error
	})
	if errors.Is(err, errDuplicate) {
		err = ErrUserExists
	}
	if err != nil {
		return Identity{}, fmt.Errorf("add user: %w", err)
	}
	return Identity{id, username}, nil
}

// ExistingUsers returns which of these users exist.
func (s *Store) ExistingUsers(ctx context.Context, userIDs []string) (map[string]bool, error) {
	known := make(map[string]bool, len(userIDs))
	valid := make([]string, 0, len(userIDs))
	for _, id := range userIDs {
		if validID(id) {
			valid = append(valid, id)
		}
	}
	err := s.do(ctx, s.read, func(t try) error {
		clear(known)
		// One array parameter: with an IN list every length would be another statement to prepare.
		rows, err := t.conn.QueryContext(t.ctx, s.dialect.bind("SELECT id FROM users WHERE id "+s.dialect.anyOf), s.dialect.arrayArg(valid))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			known[id] = true
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	return known, nil
}

// SignIn makes token the user's current refresh token until expires, which ends the user's earlier session and
// forgets the value that it replaced. With create it makes a user who does not exist; else it returns ErrNoUser.
func (s *Store) SignIn(ctx context.Context, username string, create bool, token Hash, expires time.Time) (Identity, error) {
	if !ValidUsername(username) {
		return Identity{}, fmt.Errorf("sign in: %w", ErrUsername)
	}
	id, err := newID()
	if err != nil {
		return Identity{}, err
	}
	identity := Identity{Username: username}
	err = s.do(ctx, s.write, func(t try) error {
		if !create {
			return t.row(`
				UPDATE users SET refresh_hash = ?, refresh_expires_at = ?, previous_hash = NULL, rotated_at = NULL
				WHERE username = ? RETURNING id`,
				token[:], expires.UTC(), username).Scan(&identity.ID)
		}
		return t.row(`
			INSERT INTO users (id, username, created_at, refresh_hash, refresh_expires_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (username) DO UPDATE SET refresh_hash = excluded.refresh_hash,
				refresh_expires_at = excluded.refresh_expires_at, previous_hash = NULL, rotated_at = NULL
			RETURNING id`,
			id, username, s.timestamp(), token[:], expires.UTC()).Scan(&identity.ID)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoUser
	}
	if err != nil {
		return Identity{}, fmt.Errorf("sign in: %w", err)
	}
	return identity, nil
}

// RefreshSession replaces the refresh token old, which then is spent, by next, valid until expires. With a userID, old must
// be this user's. One conditional UPDATE decides: of any number of concurrent calls with the same old, over any
// number of instances, exactly one succeeds. The others get ErrRefreshToken and change nothing; a value that was
// replaced leeway or longer ago revokes the user's current token and is ErrReused, with the user's id.
func (s *Store) RefreshSession(ctx context.Context, userID string, old, next Hash, expires time.Time, leeway time.Duration) (Identity, error) {
	if userID != "" && !validID(userID) {
		return Identity{}, fmt.Errorf("refresh session: %w", ErrRefreshToken)
	}
	var identity Identity
	err := s.do(ctx, s.write, func(t try) error {
		now := s.timestamp()
		andUser, args := "", []any{next[:], expires.UTC(), old[:], now, old[:], now}
		if userID != "" {
			andUser, args = " AND id = ?", append(args, userID)
		}
		return t.row(`
			UPDATE users SET refresh_hash = ?, refresh_expires_at = ?, previous_hash = ?, rotated_at = ?
			WHERE refresh_hash = ? AND refresh_expires_at > ?`+andUser+` RETURNING id, username`,
			args...).Scan(&identity.ID, &identity.Username)
	})
	if errors.Is(err, sql.ErrNoRows) {
		identity.ID, err = s.revokeIfReused(ctx, userID, old, leeway)
	}
	if err != nil {
		return identity, fmt.Errorf("refresh session: %w", err)
	}
	return identity, nil
}

// revokeIfReused returns why old lost: ErrRefreshToken, or ErrReused with the user's id after revoking.
func (s *Store) revokeIfReused(ctx context.Context, userID string, old Hash, leeway time.Duration) (revoked string, err error) {
	err = s.do(ctx, s.write, func(t try) error {
		andUser, args := "", []any{old[:], s.timestamp().Add(-leeway)}
		if userID != "" {
			andUser, args = " AND id = ?", append(args, userID)
		}
		return t.row(`
			UPDATE users SET refresh_hash = NULL, refresh_expires_at = NULL, previous_hash = NULL, rotated_at = NULL
			WHERE previous_hash = ? AND rotated_at <= ?`+andUser+` RETURNING id`, args...).Scan(&revoked)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", ErrRefreshToken
	case err != nil:
		return "", err
	}
	return revoked, ErrReused
}

// SignOut revokes the session of the user whose current refresh token is token, else, when there is none, the one
// of userID. Either may be zero. Nobody to sign out is no error.
func (s *Store) SignOut(ctx context.Context, token Hash, userID string) error {
	err := s.do(ctx, s.write, func(t try) error {
		const revoke = "UPDATE users SET refresh_hash = NULL, refresh_expires_at = NULL, previous_hash = NULL, rotated_at = NULL WHERE "
		revoked, err := t.exec(revoke+"refresh_hash = ?", token[:])
		if err != nil || revoked > 0 || !validID(userID) {
			return err
		}
		_, err = t.exec(revoke+"id = ?", userID)
		return err
	})
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	return nil
}
