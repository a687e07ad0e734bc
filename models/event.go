package models

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
)

// Event is scheduled in a world. After its creation only its creator and the operator change it.
type Event struct {
	Number      int64  `gorm:"primaryKey;not null"` // stands for the event in RSVPs; the database assigns it, from 1 on
	ID          ID     `gorm:"not null;unique"`
	WorldID     string `gorm:"not null"`
	CreatorID   *ID    // nil once the creator's account is gone
	Name        string `gorm:"not null"`
	Description string `gorm:"not null"`
	// ScheduledAt is in UTC, and a whole number of milliseconds.
	ScheduledAt time.Time `gorm:"not null"`
	CreatedAt   time.Time `gorm:"not null"`
	// RequestHash stands for the world and the values of the creation; nil without an Idempotency-Key. No edit changes it.
	RequestHash *Hash
}

// SetKey makes repeated creations of e by this user with this key one event: the key gives the id, and RequestHash tells a repeat from
// another request (draft-ietf-httpapi-idempotency-key-header). The world and the values must be set before. The derivation of both must not
// change, or a client that repeats a request across an update would get a second event.
func (e *Event) SetKey(user ID, key string) {
	sum := sha256.Sum256(fmt.Appendf(nil, "worldevents event of %s %s", user, key))
	e.ID = ID(sum[:len(e.ID)])
	e.ID[6], e.ID[8] = e.ID[6]&0x0f|0x80, e.ID[8]&0x3f|0x80 // UUIDv8 (RFC 9562 section 5.8)
	hash := Hash(sha256.Sum256(fmt.Appendf(nil, "%+q %+q %+q %d", e.WorldID, e.Name, e.Description, e.ScheduledAt.UnixMilli())))
	e.RequestHash = &hash
}

// RSVP is one user's promise to take part in one event. Leaving deletes the row.
type RSVP struct {
	EventNumber int64     `gorm:"primaryKey;autoIncrement:false;not null"`
	CreatedAt   time.Time `gorm:"not null"`
	UserNumber  int32     `gorm:"primaryKey;autoIncrement:false;not null"`
	Username    string    `gorm:"not null"` // the user's; a foreign key keeps it true
}

// CreateEvent stores e, which needs WorldID, Name, Description and ScheduledAt, with the RSVP of its creator: both or neither. It returns
// the new event's id, or ErrSignedOut.
//
// With a key (SetKey) a repeat of the request changes nothing and returns the same id, whatever has become of the event, unless it was
// removed. Another request with the key of an existing event gets ErrKeyUsed.
func (s *Store) CreateEvent(ctx context.Context, caller Caller, e Event) (ID, error) {
	if e.ID.IsZero() {
		e.ID = newID()
	}
	statements := s.createInPostgres
	if s.file != nil {
		statements = s.createInSQLite
	}
	create := batch.Write{Kind: batch.Creates, Event: e.ID, User: caller.UserID, Statements: statements(caller, e)}
	repeated := false
	created, err := s.settle(ctx, create, func(tx *gorm.DB) (again bool, err error) {
		if err := caller.check(tx); err != nil || e.RequestHash == nil {
			return true, err
		}
		repeated, err = e.isThere(tx)
		return !repeated, err
	})
	if err == nil && !created && !repeated {
		err = ErrBusy // somebody blocks and unblocks the user again and again
	}
	return e.ID, wrap(err, "create event in world %q", e.WorldID)
}

// isThere reports whether an event of this key exists. It returns ErrKeyUsed if another request created it.
func (e Event) isThere(tx *gorm.DB) (bool, error) {
	var hash *Hash
	switch err := scan(tx.Raw("SELECT request_hash FROM events WHERE id = ?", e.ID), &hash); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case hash == nil || *hash != *e.RequestHash:
		return false, ErrKeyUsed
	}
	return true, nil
}

// onConflict keeps an event whose key has come before. Other ids are new.
func (e Event) onConflict() string {
	if e.RequestHash == nil {
		return ""
	}
	return "ON CONFLICT (id) DO NOTHING"
}

// createInPostgres writes both rows in one statement: one round trip. PostgreSQL checks foreign keys at the end of a statement, so the RSVP
// may refer to an event of the same statement.
func (s *Store) createInPostgres(caller Caller, e Event) []batch.Statement {
	return []batch.Statement{s.statement(`
		WITH creator AS (
			SELECT number, id, username FROM users WHERE id = ? AND ?
		), event AS (
			INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at, request_hash)
			SELECT ?, ?, id, ?, ?, ?, ?, ? FROM creator `+e.onConflict()+`
			RETURNING number, created_at
		)
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT event.number, event.created_at, creator.number, creator.username FROM event, creator`,
		caller.UserID, caller.isActive(), e.ID, e.WorldID, e.Name, e.Description, e.ScheduledAt, s.timestamp(), e.RequestHash)}
}

// createInSQLite needs two statements in a transaction, since SQLite allows no INSERT in a WITH. They cost no round trip.
func (s *Store) createInSQLite(caller Caller, e Event) []batch.Statement {
	now := s.timestamp()
	return []batch.Statement{s.statement(`
		INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at, request_hash)
		SELECT ?, ?, id, ?, ?, ?, ?, ? FROM users WHERE id = ? AND ? `+e.onConflict(),
		e.ID, e.WorldID, e.Name, e.Description, e.ScheduledAt, now, e.RequestHash, caller.UserID, caller.isActive(),
	), s.statement(`
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT last_insert_rowid(), ?, number, username FROM users WHERE id = ? AND changes() > 0`, now, caller.UserID)}
}

// WorldOf returns the world of an event, or "" if there is none.
func (s *Store) WorldOf(ctx context.Context, event ID) (world string, err error) {
	err = s.read(ctx, func(tx *gorm.DB) error {
		return scan(tx.Raw("SELECT coalesce((SELECT world_id FROM events WHERE id = ?), '')", event), &world)
	})
	return world, wrap(err, "find the world of event %s", event)
}

// JoinEvent adds the caller's RSVP to an event of this world, or of any if that is nil. A second RSVP meets the unique key and changes
// nothing, in any race. It returns ErrSignedOut or ErrNoEvent.
func (s *Store) JoinEvent(ctx context.Context, caller Caller, event ID, world *string) error {
	_, err := s.attend(ctx, batch.Joins, caller, event, world, `
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT event.number, ?, caller.number, caller.username FROM event, caller WHERE true ON CONFLICT DO NOTHING`, s.timestamp())
	return wrap(err, "join event %s", event)
}

// LeaveEvent removes the caller's RSVP, and reports whether there was one. It returns ErrSignedOut or ErrNoEvent.
func (s *Store) LeaveEvent(ctx context.Context, caller Caller, event ID) (left bool, err error) {
	left, err = s.attend(ctx, batch.Leaves, caller, event, nil, `
		DELETE FROM rsvps WHERE event_number = (SELECT number FROM event) AND user_number = (SELECT number FROM caller)`)
	return left, wrap(err, "leave event %s", event)
}

// attend runs a statement that changes the caller's RSVP, and reports whether it did. The statement has two tables: event, which is empty
// if there is none, and caller, which is empty if they are not active. The same snapshot shows why nothing changed. An RSVP that it does
// not show, because another call has just added or removed it, is as wanted.
func (s *Store) attend(ctx context.Context, kind batch.Kind, caller Caller, event ID, world *string, statement string, vars ...any) (changed bool, err error) {
	const with = "WITH event AS (SELECT number FROM events WHERE id = ? AND world_id = coalesce(?, world_id)), caller AS (SELECT number, username FROM users WHERE id = ? AND ?)"
	const found = " SELECT EXISTS (SELECT 1 FROM caller), EXISTS (SELECT 1 FROM event), "
	who := []any{event, world, caller.UserID, caller.isActive()}
	vars = append(who, vars...)
	statements := []batch.Statement{s.statement(with+", changed AS ("+statement+" RETURNING 1)"+found+"EXISTS (SELECT 1 FROM changed)", vars...)}
	if s.file != nil { // SQLite allows no change in a WITH
		statements = []batch.Statement{s.statement(with+statement, vars...), s.statement(with+found+"changes() > 0", who...)}
	}
	var row struct{ active, exists, changed bool }
	_, err = s.apply(ctx, batch.Write{Kind: kind, Event: event, User: caller.UserID, Statements: statements,
		Into: []any{&row.active, &row.exists, &row.changed}})
	if err != nil || row.changed {
		s.tell()
	}
	switch {
	case err != nil:
		return false, err
	case !row.active:
		return false, ErrSignedOut
	case !row.exists:
		return false, ErrNoEvent
	}
	return row.changed, nil
}
