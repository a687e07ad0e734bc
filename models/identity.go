package models

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"gorm.io/gorm"

	"worldevents/models/internal/names"
)

// SignInExternal is SignIn for somebody whom an identity provider vouches for. Issuer and subject together
// decide who it is (OpenID Connect Core 1.0 section 5.7), never the name. Somebody unknown becomes a new user.
// The new user is called username or, if that name cannot be used, by the first of usernameCandidates that
// looks like nobody's name. Later sign-ins do not change the name. It returns ErrBlocked for a user who is
// blocked, and for one who was removed for good.
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

// externalID stands for somebody whom an identity provider knows, in Store.locking.
func externalID(issuer, subject string) string { return issuer + " " + subject }

// addUnlessAlike is addMissing for a user of an identity provider, whose name must look like nobody's. Unique
// keys compare it with the names of other such users. Names that an operator gave have no such keys, since an
// operator may give any name: these are looked up.
func addUnlessAlike(tx *gorm.DB, user User) error {
	alike, err := looksGiven(tx, user)
	if err != nil || alike {
		return err
	}
	return addMissing(tx, user)
}

// looksGiven reports whether the name of user looks like one that an operator gave. Each half is one look-up in
// a partial index. Both databases use such an index only if the query repeats the predicate of the index, and
// only without an OR inside the same SELECT.
func looksGiven(tx *gorm.DB, user User) (alike bool, err error) {
	err = scan(tx.Raw(`SELECT EXISTS (SELECT 1 FROM users WHERE issuer IS NULL AND folded = ?)
		OR EXISTS (SELECT 1 FROM users WHERE issuer IS NULL AND skeleton = ?)`, *user.Folded, *user.Skeleton), &alike)
	return alike, err
}

// usernameCandidates are the names to try for a new user who prefers one: that name as names.Normalize spells
// it, then with -2 to -9 after it, then with eight random hexadecimal digits. If the preferred name cannot be
// used, "user" with such digits takes its place.
func usernameCandidates(preferred string) iter.Seq[string] {
	return func(yield func(string) bool) {
		preferred := names.Normalize(preferred)
		if preferred != "" {
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
