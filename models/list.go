package models

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Span selects events of a world, in the order of the list: by ScheduledAt, then id.
type Span struct {
	WorldID string
	// From and To bound ScheduledAt, To exclusively. Zero means unbounded.
	From, To time.Time
	// After is the place behind which the list begins; nil means at its start.
	After *Place
	// Limit is the largest number of events; 0 means all.
	Limit int
}

// Place is where an event stands in its world's list.
type Place struct {
	ScheduledAt time.Time
	ID          string
}

// ListedEvent is an event of a list.
type ListedEvent struct {
	ID, Name, Description string
	ScheduledAt           time.Time
	// Usernames of its RSVPs in the order of joining, as a JSON array of strings.
	Usernames string
}

// List returns the events of a span with their RSVPs, all of one snapshot, and whether more events follow. It takes
// two statements, however many events there are. It returns ErrNoUser when the asking user does not exist.
func (s *Store) List(ctx context.Context, userID string, span Span) (events []ListedEvent, more bool, err error) {
	err = s.do(ctx, s.read, func(tx *gorm.DB) error {
		if err := exists(tx, userID, ""); err != nil {
			return err
		}
		query, args := s.listQuery(span)
		rows, err := tx.Raw(query, args...).Rows()
		if err != nil {
			return err
		}
		defer rows.Close()
		events, more = events[:0], false
		for rows.Next() {
			if span.Limit > 0 && len(events) == span.Limit {
				more = true
				continue // and let the rows end by themselves
			}
			var e ListedEvent
			if err := rows.Scan(&e.ID, &e.Name, &e.Description, &e.ScheduledAt, &e.Usernames); err != nil {
				return err
			}
			events = append(events, e)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, false, fmt.Errorf("list events: %w", err)
	}
	return events, more, nil
}

func (s *Store) listQuery(span Span) (query string, args []any) {
	where, args := "e.world_id = ?", []any{span.WorldID}
	if !span.From.IsZero() {
		where, args = where+" AND e.scheduled_at >= ?", append(args, span.From)
	}
	if !span.To.IsZero() {
		where, args = where+" AND e.scheduled_at < ?", append(args, span.To)
	}
	if a := span.After; a != nil {
		where, args = where+" AND (e.scheduled_at, e.id) > (?, ?)", append(args, a.ScheduledAt, a.ID)
	}
	query = "SELECT e.id, e.name, e.description, e.scheduled_at, " + s.dialect.usernames +
		" FROM events e WHERE " + where + " ORDER BY e.scheduled_at, e.id"
	if span.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, span.Limit+1)
	}
	return query, args
}
