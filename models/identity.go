package models

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"time"

	"gorm.io/gorm"
)

// SignInExternal is SignIn for somebody whom an identity provider vouches for. Issuer and subject together decide who
// it is, never the name: somebody unknown becomes a new user, called username or, when that cannot be, by the first of
// usernameCandidates that is free. A user keeps the name of the first time.
func (s *Store) SignInExternal(ctx context.Context, issuer, subject, username string, token Hash, expires time.Time) (Identity, error) {
	var identity Identity
	var err error
	for name := range usernameCandidates(username) {
		err = s.write(ctx, func(tx *gorm.DB) error {
			return scan(tx.Raw(`
				INSERT INTO users (id, username, created_at, issuer, subject, refresh_hash, refresh_expires_at)
				VALUES (?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (issuer, subject) DO UPDATE SET refresh_hash = excluded.refresh_hash,
					refresh_expires_at = excluded.refresh_expires_at, previous_hash = NULL, rotated_at = NULL
				RETURNING id, username`,
				newID(), name, s.timestamp(), issuer, subject, token, expires.UTC()), &identity.ID, &identity.Username)
		})
		// The name is taken, or the same subject was made a moment ago by another sign-in: the next round finds it.
		if !errors.Is(err, errDuplicate) {
			break
		}
	}
	if err != nil {
		return Identity{}, fmt.Errorf("sign in: %w", err)
	}
	return identity, nil
}

// usernameCandidates are the names to try for a new user who prefers one: that itself, with -2 to -9 after it, then with
// eight random hexadecimal digits. A preferred name that is no username becomes "user" with such digits.
func usernameCandidates(preferred string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if ValidUsername(preferred) {
			if !yield(preferred) {
				return
			}
			runes := []rune(preferred)
			preferred = string(runes[:min(len(runes), 90)]) // leaves room for what follows
			for n := 2; n <= 9; n++ {
				if !yield(fmt.Sprintf("%s-%d", preferred, n)) {
					return
				}
			}
		} else {
			preferred = "user"
		}
		for range 5 {
			digits := make([]byte, 4)
			rand.Read(digits) // never fails
			if !yield(preferred + "-" + hex.EncodeToString(digits)) {
				return
			}
		}
	}
}
