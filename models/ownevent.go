package models

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
)

// OwnFilter selects events that a user made or joined.
type OwnFilter struct {
	User   ID
	Joined bool     // events of others that the user joined, instead of the user's own
	World  string   // "" means all
	Past   bool     // events whose time has come, the latest first, instead of those to come, the next first
	After  Position // they begin behind it; zero means at the first
	Limit  int      // at most this many, at least 1
}

// OwnEvent is an event for a user who made or joined it. It has no description.
type OwnEvent struct {
	Event
	Joined    bool // the user has an RSVP
	Attendees int  // RSVPs, counted up to MaxAttendees
}

// MaxAttendees is the limit of counting the attendees of an OwnEvent.
const MaxAttendees = 1000

// maxOwn bounds the events and RSVPs of a user that are looked at, the newest first. No index has a user's events by their time, so each
// page reads them all, and a program can make any number.
const maxOwn = 1000

// OwnEvents returns the next events of a filter, and whether more follow.
func (s *Store) OwnEvents(ctx context.Context, f OwnFilter) (events []OwnEvent, more bool, err error) {
	query, args := s.ownEvents(f)
	err = s.read(ctx, func(tx *gorm.DB) error {
		events = nil
		return tx.Raw(query, args...).Scan(&events).Error
	})
	if more = len(events) > f.Limit; more {
		events = events[:f.Limit]
	}
	return events, more, wrap(err, "list own events")
}

// ownEvents is the query for one event more than the filter's limit.
func (s *Store) ownEvents(f OwnFilter) (query string, args []any) {
	const number = "(SELECT number FROM users WHERE id = ?)"
	const columns = "number, id, world_id, creator_id, name, scheduled_at"
	query, args = "SELECT * FROM (SELECT "+columns+" FROM events WHERE creator_id = ? ORDER BY number DESC LIMIT ?) own WHERE true", []any{f.User, maxOwn}
	if f.Joined {
		// The limit is around the events, too: else PostgreSQL may go through a whole world, and through the RSVPs for each of its events.
		query, args = "SELECT * FROM (SELECT e."+strings.ReplaceAll(columns, " ", " e.")+` FROM rsvps r JOIN events e ON e.number = r.event_number
				WHERE r.user_number = `+number+` ORDER BY r.event_number DESC LIMIT ?) own
			WHERE own.world_id <> '`+detached+`' AND (own.creator_id IS NULL OR own.creator_id <> ?)`, []any{f.User, maxOwn, f.User}
	}
	if f.World != "" {
		query, args = query+" AND own.world_id = ?", append(args, f.World)
	}
	direction, when, position := "", " AND own.scheduled_at >= ?", " AND (own.scheduled_at, own.id) > (?, ?)"
	if f.Past {
		direction, when, position = " DESC", " AND own.scheduled_at < ?", " AND (own.scheduled_at, own.id) < (?, ?)"
	}
	query, args = query+when, append(args, s.timestamp())
	if f.After != (Position{}) {
		query, args = query+position, append(args, f.After.ScheduledAt, f.After.ID)
	}
	order := " ORDER BY scheduled_at" + direction + ", id" + direction + " LIMIT ?"
	// The page is cut before its events are counted and looked up: SQLite does not merge two queries that both have a limit.
	query = "SELECT page.*, EXISTS (SELECT 1 FROM rsvps r WHERE r.user_number = " + number + ` AND r.event_number = page.number) AS joined,
		(SELECT count(*) FROM (SELECT 1 FROM rsvps r WHERE r.event_number = page.number LIMIT ?) counted) AS attendees
		FROM (` + query + order + ") page" + order
	return query, append(append([]any{f.User, MaxAttendees}, args...), f.Limit+1, f.Limit+1)
}

// FindOwnEvent returns an event that the user made, or ErrNoEvent.
func (s *Store) FindOwnEvent(ctx context.Context, user, id ID) (event Event, err error) {
	err = s.read(ctx, func(tx *gorm.DB) (err error) {
		event, err = readOwnEvent(tx, user, id)
		return err
	})
	return event, wrap(err, "find own event %s", id)
}

// FindAttended returns an event that the user made or joined, or ErrNoEvent.
func (s *Store) FindAttended(ctx context.Context, user, id ID) (event Event, err error) {
	const joined = "EXISTS (SELECT 1 FROM rsvps r JOIN users u ON u.number = r.user_number WHERE u.id = ? AND r.event_number = events.number)"
	err = s.read(ctx, func(tx *gorm.DB) (err error) {
		event, err = one(tx.Where("id = ? AND (creator_id = ? OR "+joined+")", id, user, user))
		return err
	})
	return event, wrap(err, "find attended event %s", id)
}

func readOwnEvent(tx *gorm.DB, user, id ID) (Event, error) {
	return one(tx.Where("id = ? AND creator_id = ?", id, user))
}

// one returns the event that a query finds, or ErrNoEvent.
func one(query *gorm.DB) (event Event, err error) {
	res := query.Limit(1).Find(&event)
	if res.Error == nil && res.RowsAffected == 0 {
		return Event{}, ErrNoEvent
	}
	return event, res.Error
}

// isMadeBy is the condition that an event is the caller's own, and that the caller is active.
func (c Caller) isMadeBy(id ID) (condition string, args []any) {
	return " id = ? AND creator_id = ? AND ?", []any{id, c.UserID, c.isActive()}
}

// EditOwnEvent gives an event that the caller made, and saw as seen, the name, description and time of next, which must fit the contract.
// One UPDATE lets one of two concurrent edits succeed. It returns ErrSignedOut, ErrEdited, or ErrNoEvent, also for another user's event.
func (s *Store) EditOwnEvent(ctx context.Context, caller Caller, seen, next Event) error {
	condition, args := caller.isMadeBy(seen.ID)
	args = append([]any{next.Name, next.Description, next.ScheduledAt}, append(args, seen.Name, seen.Description, seen.ScheduledAt)...)
	edit := batch.Write{Kind: batch.Edits, Event: seen.ID, User: caller.UserID, Statements: []batch.Statement{s.statement(
		"UPDATE events SET name = ?, description = ?, scheduled_at = ? WHERE"+condition+" AND name = ? AND description = ? AND scheduled_at = ?", args...)}}
	err := s.changeOwn(ctx, caller, edit, func(now Event) error {
		if now.Name != seen.Name || now.Description != seen.Description || !now.ScheduledAt.Equal(seen.ScheduledAt) {
			return ErrEdited
		}
		return nil
	})
	return wrap(err, "edit own event %s", seen.ID)
}

// CancelEvent removes an event that the caller made, as RemoveEvent does: one statement hides it, however many have joined. It returns when
// the event was created, which tells it from a later one with the same key, or ErrSignedOut or ErrNoEvent (also for another user's event).
func (s *Store) CancelEvent(ctx context.Context, caller Caller, id ID) (time.Time, error) {
	var created time.Time // of the write's own
	condition, args := caller.isMadeBy(id)
	cancel := batch.Write{Kind: batch.Edits, Event: id, User: caller.UserID, Into: []any{&created}, Statements: []batch.Statement{
		s.statement(s.dialect.detach()+condition+" RETURNING created_at", args...)}}
	if err := s.changeOwn(ctx, caller, cancel, func(Event) error { return nil }); err != nil {
		return time.Time{}, fmt.Errorf("cancel event %s: %w", id, err)
	}
	return created, nil
}

// changeOwn runs w, which changes an event of the caller. If it changed nothing, refuse may return the reason.
func (s *Store) changeOwn(ctx context.Context, caller Caller, w batch.Write, refuse func(now Event) error) error {
	changed, err := s.settle(ctx, w, func(tx *gorm.DB) (again bool, err error) {
		if err := caller.check(tx); err != nil {
			return false, err
		}
		now, err := readOwnEvent(tx, caller.UserID, ID(w.Event))
		if err == nil {
			err = refuse(now)
		}
		return true, err
	})
	if err == nil && !changed {
		err = ErrBusy // somebody changes it, or blocks the user, and back, again and again
	}
	return err
}
