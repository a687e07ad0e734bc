package models

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"gorm.io/gorm"
)

// SignInExternal is SignIn for somebody whom an identity provider vouches for. Issuer and subject together decide who
// it is, never the name: somebody unknown becomes a new user, called username or, when that cannot be, by the first of
// usernameCandidates that is free. A user keeps the name of the first time.
func (s *Store) SignInExternal(ctx context.Context, issuer, subject, username string, in SignIn) (Grant, error) {
	var grant Grant
	err := s.transaction(ctx, func(tx *gorm.DB) error {
		user, err := lockUser(tx.Where("issuer = ? AND subject = ?", issuer, subject))
		for name := range usernameCandidates(username) {
			if !errors.Is(err, ErrNoUser) {
				break
			}
			user = s.newUser(name)
			user.Issuer, user.Subject = &issuer, &subject
			if err := addMissing(tx, user); err != nil {
				return err
			}
			user, err = lockUser(tx.Where("issuer = ? AND subject = ?", issuer, subject))
		}
		if err != nil {
			return err
		}
		grant, err = s.begin(tx, Identity{user.ID, user.Username}, in)
		return err
	})
	if err != nil {
		return Grant{}, fmt.Errorf("sign in: %w", err)
	}
	return grant, nil
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
