package models

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/names"
	"worldevents/models/internal/schema"
)

// Person is all data about a user, except hashes of tokens.
type Person struct {
	User
	Sessions []Session // all that are stored, ended or not, without their hashes
	Events   []Event   // which the user created
	RSVPs    []Joined  // in joining order
}

// Joined is an RSVP for its user.
type Joined struct {
	EventID     ID
	WorldID     string
	Name        string
	ScheduledAt time.Time
	CreatedAt   time.Time // when the user joined
}

// FindPerson returns all data about a user, as it was at one moment, or ErrNoUser.
func (s *Store) FindPerson(ctx context.Context, who Who) (Person, error) {
	var person Person
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		person = Person{}
		var err error
		if person.User, err = readUser(who.in(tx)); err != nil {
			return err
		}
		err = tx.Omit("handle_hash", "token_hash", "spent").Where("user_id = ?", person.ID).
			Order("created_at, id").Find(&person.Sessions).Error
		if err != nil {
			return err
		}
		err = tx.Where("creator_id = ?", person.ID).Order("created_at, id").Find(&person.Events).Error
		if err != nil {
			return err
		}
		return tx.Raw(`
			SELECT e.id AS event_id, e.world_id, e.name, e.scheduled_at, r.created_at
			FROM rsvps r JOIN events e ON e.number = r.event_number
			WHERE r.user_number = ? AND e.world_id <> '' ORDER BY r.created_at, e.id`, person.Number).Scan(&person.RSVPs).Error
	})
	return person, wrap(err, "find user")
}

// lockLists keeps ALTER TABLE and TRUNCATE away until the end of the transaction. It comes before the snapshot: a table that is rewritten
// while a query waits for it looks empty to an earlier snapshot (PostgreSQL, "Caveats" of MVCC).
const lockLists = "LOCK TABLE users, sessions, events, rsvps, changes, incarnation IN ACCESS SHARE MODE"

// snapshot runs fn, which only reads, on one state of the database. On SQLite it runs on the writing connection, so nobody else writes.
func (s *Store) snapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if s.file != nil {
		return s.transaction(ctx, fn)
	}
	return s.patiently(ctx, func(tx *gorm.DB) error { // one round trip, as there are no parameters
		if err := tx.Exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; " + lockLists).Error; err != nil {
			return err
		}
		return fn(tx)
	})
}

// NoteTo makes this the store of a command: while somebody keeps a table locked that CheckSchema, FindPerson or FindEvent read, these wait,
// and note gets the reason. Call it first.
func (s *Store) NoteTo(note func(text string)) { s.noteTo = note }

// patiently is transaction on PostgreSQL for an fn that only reads. After NoteTo it repeats fn while a table is locked.
func (s *Store) patiently(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if s.noteTo == nil {
		return s.transaction(ctx, fn)
	}
	for told := ""; ; {
		err := s.transaction(ctx, func(tx *gorm.DB) error {
			if err := tx.Exec("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1s'").Error; err != nil {
				return err
			}
			return fn(tx)
		})
		if !errors.Is(err, dberr.ErrLocked) || ctx.Err() != nil {
			return err
		}
		var who string
		if s.read(ctx, func(tx *gorm.DB) error { return scan(tx.Raw(schema.LockedBy), &who) }) == nil && who != "" && who != told {
			told = who
			s.noteTo(who)
		}
	}
}

const batchOfUsers = 1000 // are read at once

// EachUser calls each with all users, in the order in which they were added, until it returns an error or ctx ends. It reads batches, so
// users who are added meanwhile may be among them.
func (s *Store) EachUser(ctx context.Context, each func(User) error) error {
	return eachBatch(ctx, batchOfUsers, oneByOne(each), func(after User) (users []User, err error) {
		err = s.read(ctx, func(tx *gorm.DB) error {
			return tx.Where("id > ?", after.ID).Order("id").Limit(batchOfUsers).Find(&users).Error
		})
		return users, wrap(err, "list users")
	})
}

// RenameUser gives a user the name to, in all lists at once, and returns the user with the former name. A JWT keeps that until the next
// refresh of its session. It returns ErrNoUser, ErrUsername, ErrUserExists or ErrUserAlike.
//
// The operator may give any free name. Only the name of an identity provider's user may not look like another, as at the first sign-in:
// people choose those names themselves, and tell each other apart by them.
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
			"username": to, "folded": renamed.Folded, "skeleton": renamed.Skeleton, // a foreign key does the same in rsvps (ON UPDATE CASCADE)
		}).Error
		switch { // taken since
		case isUsernameTaken(err):
			return ErrUserExists
		case errors.Is(dberr.Classify(err), dberr.ErrDuplicate):
			return ErrUserAlike
		}
		return err
	})
	s.tell()
	return Identity{user.ID, user.Username}, wrap(err, "rename user")
}

// refuseTaken returns ErrUserExists if another user has the name of renamed, and ErrUserAlike if it looks like another user's and must not.
// Two concurrent calls for one name both pass here, and a unique key stops one of them.
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

// BlockUser keeps a user from signing in, and revokes their sessions. changed is false if they were blocked before. It returns ErrNoUser.
func (s *Store) BlockUser(ctx context.Context, who Who) (user User, changed bool, err error) {
	return s.setBlocked(ctx, "block user", who, s.timestamp())
}

// UnblockUser lets a user sign in again. changed is false if the user was not blocked. It returns ErrNoUser.
func (s *Store) UnblockUser(ctx context.Context, who Who) (user User, changed bool, err error) {
	return s.setBlocked(ctx, "unblock user", who, nil)
}

// setBlocked sets since when a user is blocked, nil for not at all. It keeps the lock of lockUser, so that no sign-in begins a session
// between the blocking and the revoking.
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
	return user, changed, wrap(err, "%s", what)
}

// IdentityHash is the part of the user's identity that stays after a removal for good; nil without an identity.
func (u User) IdentityHash() *Hash {
	if u.Issuer == nil {
		return nil
	}
	return new(identityHash(*u.Issuer, *u.Subject))
}

// identityHash recognizes an identity that must not come back, and names nobody. An issuer has no zero byte, so no two pairs are alike.
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

// BlockIdentity keeps an identity from becoming a user. changed is false if it was blocked before.
func (s *Store) BlockIdentity(ctx context.Context, identity Hash) (changed bool, err error) {
	err = s.write(ctx, func(tx *gorm.DB) (err error) {
		changed, err = s.blockIdentity(tx, identity)
		return err
	})
	return changed, wrap(err, "block identity")
}

func (s *Store) blockIdentity(tx *gorm.DB, identity Hash) (changed bool, err error) {
	res := tx.Exec("INSERT INTO blocked_identities (hash, blocked_at) VALUES (?, ?) ON CONFLICT DO NOTHING", identity, s.timestamp())
	return res.RowsAffected > 0, res.Error
}

// UnblockIdentity lets an identity become a user again after its user was removed for good. changed is false if it was not blocked.
func (s *Store) UnblockIdentity(ctx context.Context, identity Hash) (changed bool, err error) {
	err = s.write(ctx, func(tx *gorm.DB) error {
		res := tx.Exec("DELETE FROM blocked_identities WHERE hash = ?", identity)
		changed = res.RowsAffected > 0
		return res.Error
	})
	return changed, wrap(err, "unblock identity")
}
