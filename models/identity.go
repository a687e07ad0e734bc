package models

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"

	"gorm.io/gorm"

	"worldevents/models/internal/names"
)

// SignInExternal is SignIn for somebody whom an identity provider vouches for. Issuer and subject identify the user (OpenID Connect Core
// 1.0 section 5.7), never the name. An unknown identity becomes a new user, with the first of usernameCandidates that looks like nobody's
// name. Later sign-ins do not change the name. It returns ErrBlocked for a user who is blocked, or was removed for good.
func (s *Store) SignInExternal(ctx context.Context, issuer, subject, username string, in SignIn) (Grant, error) {
	var grant Grant
	err := s.locking(ctx, externalID(issuer, subject), func(tx *gorm.DB) error {
		user, err := lockUser(tx.Where("issuer = ? AND subject = ?", issuer, subject))
		isNew := errors.Is(err, ErrNoUser)
		for name := range usernameCandidates(username) {
			if !errors.Is(err, ErrNoUser) {
				break
			}
			user = s.newUser(name)
			user.Issuer, user.Subject = &issuer, &subject
			if err := addUnlessAlike(tx, user); err != nil {
				return err
			}
			user, err = lockUser(tx.Where("issuer = ? AND subject = ?", issuer, subject))
		}
		if err == nil && isNew { // with the row locked: since the first look the identity may have been added, and removed for good
			err = refuseBlocked(tx, identityHash(issuer, subject))
		}
		if err != nil {
			return err
		}
		grant, err = s.begin(tx, user, in)
		return err
	})
	return grant, wrap(err, "sign in")
}

// externalID stands for a user of an identity provider in Store.locking.
func externalID(issuer, subject string) string { return issuer + " " + subject }

// addUnlessAlike is addMissing for a user of an identity provider, whose name must look like nobody's. Unique keys compare it with other
// such users. Users whom an operator named have no such keys, since an operator may give any name: addUnlessAlike looks for them.
func addUnlessAlike(tx *gorm.DB, user User) error {
	alike, err := looksGiven(tx, user)
	if err != nil || alike {
		return err
	}
	return addMissing(tx, user)
}

// looksGiven reports whether the name of user looks like one that an operator gave. Each half looks into a partial index. Both databases
// use such an index only if the query repeats its predicate, and only without an OR inside the same SELECT.
func looksGiven(tx *gorm.DB, user User) (alike bool, err error) {
	err = scan(tx.Raw(`SELECT EXISTS (SELECT 1 FROM users WHERE issuer IS NULL AND folded = ?)
		OR EXISTS (SELECT 1 FROM users WHERE issuer IS NULL AND skeleton = ?)`, *user.Folded, *user.Skeleton), &alike)
	return alike, err
}

// usernameCandidates are the names to try for a new user: the preferred one as names.Normalize spells it, then with -2 to -9, then with
// eight random hexadecimal digits. If it cannot be used, it is "user" with such digits.
func usernameCandidates(preferred string) iter.Seq[string] {
	var candidates []string
	base := "user"
	if name := names.Normalize(preferred); name != "" {
		runes := []rune(name)
		base = string(runes[:min(len(runes), 90)]) // leaves room for a suffix
		candidates = append(candidates, name)
		for n := 2; n <= 9; n++ {
			candidates = append(candidates, fmt.Sprintf("%s-%d", base, n))
		}
	}
	for range 5 {
		digits := make([]byte, 4)
		rand.Read(digits) // never fails
		candidates = append(candidates, base+"-"+hex.EncodeToString(digits))
	}
	return slices.Values(candidates)
}
