package models

import (
	"context"
	"crypto/sha256"
	"fmt"

	"gorm.io/gorm"
)

// BlockUser keeps a user from signing in, and revokes their sessions. It returns ErrNoUser. changed is
// false for a user who was blocked before.
func (s *Store) BlockUser(ctx context.Context, who Who) (user User, changed bool, err error) {
	return s.setBlocked(ctx, "block user", who, s.timestamp())
}

// UnblockUser lets a user sign in again. It returns ErrNoUser. changed is false for a user who was not blocked.
func (s *Store) UnblockUser(ctx context.Context, who Who) (user User, changed bool, err error) {
	return s.setBlocked(ctx, "unblock user", who, nil)
}

// setBlocked changes since when a user is blocked, nil for not at all.
func (s *Store) setBlocked(ctx context.Context, what string, who Who, since any) (user User, changed bool, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB) (err error) {
		if user, err = lockUser(who.in(tx)); err != nil {
			return err
		}
		changed = (user.BlockedAt == nil) != (since == nil)
		if !changed {
			return nil
		}
		if err := tx.Exec("UPDATE users SET blocked_at = ? WHERE id = ?", since, user.ID).Error; err != nil || since == nil {
			return err
		}
		return tx.Model(&Session{}).Where("user_id = ? AND revoked_at IS NULL", user.ID).Updates(s.revocation()).Error
	})
	if err != nil {
		return User{}, false, fmt.Errorf("%s: %w", what, err)
	}
	return user, changed, nil
}

// IdentityHash is what is kept of the user's identity at a provider if the user is removed for good; nil without one.
func (u User) IdentityHash() *Hash {
	if u.Issuer == nil {
		return nil
	}
	return new(identityHash(*u.Issuer, *u.Subject))
}

// identityHash is what is kept of an identity that must not come back. No issuer has a zero byte.
func identityHash(issuer, subject string) Hash {
	return sha256.Sum256([]byte(issuer + "\x00" + subject))
}

// refuseBlocked returns ErrBlocked for an identity that must not come back.
func refuseBlocked(tx *gorm.DB, identity Hash) error {
	var blocked bool
	err := scan(tx.Raw("SELECT EXISTS (SELECT 1 FROM blocked_identities WHERE hash = ?)", identity), &blocked)
	if err == nil && blocked {
		return ErrBlocked
	}
	return err
}

// BlockIdentity keeps an identity from becoming a user. It reports whether it was not blocked before.
func (s *Store) BlockIdentity(ctx context.Context, identity Hash) (changed bool, err error) {
	err = s.write(ctx, func(tx *gorm.DB) (err error) {
		changed, err = s.blockIdentity(tx, identity)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("block identity: %w", err)
	}
	return changed, nil
}

func (s *Store) blockIdentity(tx *gorm.DB, identity Hash) (changed bool, err error) {
	res := tx.Exec("INSERT INTO blocked_identities (hash, blocked_at) VALUES (?, ?) ON CONFLICT DO NOTHING", identity, s.timestamp())
	return res.RowsAffected > 0, res.Error
}

// UnblockIdentity lets an identity become a user again whose user RemoveUser has removed for good. It reports whether it was
// blocked.
func (s *Store) UnblockIdentity(ctx context.Context, identity Hash) (changed bool, err error) {
	err = s.write(ctx, func(tx *gorm.DB) error {
		res := tx.Exec("DELETE FROM blocked_identities WHERE hash = ?", identity)
		changed = res.RowsAffected > 0
		return res.Error
	})
	if err != nil {
		return false, fmt.Errorf("unblock identity: %w", err)
	}
	return changed, nil
}
