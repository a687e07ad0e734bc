package models

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
)

// Event is something scheduled in a world. After its creation only the operator changes it.
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
}

// RSVP is one user's promise to take part in one event. Leaving deletes the row.
type RSVP struct {
	EventNumber int64     `gorm:"primaryKey;autoIncrement:false;not null"`
	CreatedAt   time.Time `gorm:"not null"`
	UserNumber  int32     `gorm:"primaryKey;autoIncrement:false;not null"`
	Username    string    `gorm:"not null"` // the user's; a foreign key keeps it true
}

// CreateEvent stores e, which needs WorldID, Name, Description and ScheduledAt, together with the RSVP of its
// creator: both or neither. It returns the new event's id, and ErrSignedOut.
func (s *Store) CreateEvent(ctx context.Context, caller Caller, e Event) (ID, error) {
	if e.ID.IsZero() {
		e.ID = newID()
	}
	statements := s.createInPostgres
	if s.file != nil {
		statements = s.createInSQLite
	}
	create := batch.Write{Kind: batch.Creates, Event: e.ID, User: caller.UserID, Statements: statements(caller, e)}
	created, err := s.settle(ctx, create, func(tx *gorm.DB) (again bool, err error) { return true, caller.check(tx) })
	if err == nil && !created {
		err = ErrBusy // somebody blocks and unblocks the user again and again
	}
	if err != nil {
		return ID{}, fmt.Errorf("create event in world %q: %w", e.WorldID, err)
	}
	return e.ID, nil
}

// createInPostgres writes both rows in one statement, which is one round trip. PostgreSQL checks foreign keys
// at the end of a statement, so the RSVP may refer to an event that the same statement inserts.
func (s *Store) createInPostgres(caller Caller, e Event) []batch.Statement {
	return []batch.Statement{s.statement(`
		WITH creator AS (
			SELECT number, id, username FROM users WHERE id = ? AND ?
		), event AS (
			INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
			SELECT ?, ?, id, ?, ?, ?, ? FROM creator
			RETURNING number, created_at
		)
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT event.number, event.created_at, creator.number, creator.username FROM event, creator`,
		caller.UserID, caller.isActive(), e.ID, e.WorldID, e.Name, e.Description, e.ScheduledAt, s.timestamp())}
}

// createInSQLite needs two statements, since SQLite allows no INSERT in a WITH. Here a statement costs no round
// trip, and both are in one transaction.
func (s *Store) createInSQLite(caller Caller, e Event) []batch.Statement {
	now := s.timestamp()
	return []batch.Statement{s.statement(`
		INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
		SELECT ?, ?, id, ?, ?, ?, ? FROM users WHERE id = ? AND ?`,
		e.ID, e.WorldID, e.Name, e.Description, e.ScheduledAt, now, caller.UserID, caller.isActive(),
	), s.statement(`
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT last_insert_rowid(), ?, number, username FROM users WHERE id = ?`, now, caller.UserID)}
}

// JoinEvent adds the caller's RSVP. It is one INSERT that selects what it needs: no row comes of it if the
// event or the user does not exist, or if the caller is not active, and a second RSVP meets the unique key and
// changes nothing. So joining twice keeps the first RSVP, in any race. It returns ErrSignedOut or ErrNoEvent.
func (s *Store) JoinEvent(ctx context.Context, caller Caller, event ID) error {
	join := batch.Write{Kind: batch.Joins, Event: event, User: caller.UserID, Statements: []batch.Statement{s.statement(`
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT e.number, ?, u.number, u.username FROM events e, users u WHERE e.id = ? AND u.id = ? AND ?
		ON CONFLICT DO NOTHING`, s.timestamp(), event, caller.UserID, caller.isActive())}}
	_, err := s.settle(ctx, join, func(tx *gorm.DB) (again bool, err error) {
		joined, err := caller.hasJoined(tx, event)
		return !joined, err
	})
	if err != nil {
		return fmt.Errorf("join event %s: %w", event, err)
	}
	return nil
}

// LeaveEvent removes the caller's RSVP, if there is one. It returns ErrSignedOut or ErrNoEvent.
func (s *Store) LeaveEvent(ctx context.Context, caller Caller, event ID) error {
	leave := batch.Write{Kind: batch.Leaves, Event: event, User: caller.UserID, Statements: []batch.Statement{s.statement(`
		DELETE FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = ?)
		AND user_number = (SELECT number FROM users WHERE id = ?) AND ?`, event, caller.UserID, caller.isActive())}}
	_, err := s.settle(ctx, leave, func(tx *gorm.DB) (again bool, err error) { return caller.hasJoined(tx, event) })
	if err != nil {
		return fmt.Errorf("leave event %s: %w", event, err)
	}
	return nil
}
