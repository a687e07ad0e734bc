package models

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// EventDetails is an event for the operator.
type EventDetails struct {
	Event
	Creator *string // the username; nil once the creator's account is gone
	RSVPs   int64   `gorm:"column:rsvps"` // how many
}

const eventDetails = `
	SELECT e.number, e.id, e.world_id, e.creator_id, e.name, e.description, e.scheduled_at, e.created_at, u.username AS creator,
		(SELECT count(*) FROM rsvps WHERE event_number = e.number) AS rsvps
	FROM events e LEFT JOIN users u ON u.id = e.creator_id`

// EventFilter selects events. A zero field selects all.
type EventFilter struct {
	Creator      ID
	World        string
	Since, Until time.Time // bound CreatedAt; Until is exclusive
	Before       time.Time // bounds ScheduledAt; exclusive
}

const batchOfEvents = 500 // are read at once

// EachEvent calls each with all events of a filter, until it returns an error or ctx ends: with a creator in the order of creation, else
// world by world in the order of the lists. It reads batches, so events that are created meanwhile may be among them.
func (s *Store) EachEvent(ctx context.Context, f EventFilter, each func(EventDetails) error) error {
	return wrap(s.eventBatches(ctx, f, batchOfEvents, oneByOne(each)), "list events")
}

// eventBatches is EachEvent with up to size events at a time.
func (s *Store) eventBatches(ctx context.Context, f EventFilter, size int, each func([]EventDetails) error) error {
	return eachBatch(ctx, size, each, func(after EventDetails) (batch []EventDetails, err error) {
		err = s.read(ctx, func(tx *gorm.DB) error {
			batch = nil
			query, args := f.after(after)
			return tx.Raw(query+" LIMIT ?", append(args, size)...).Scan(&batch).Error
		})
		return batch, err
	})
}

// after is the query for the events behind last, the first ones if last is zero. It orders by the columns of an index and compares with the
// last row instead of counting an offset, so that each batch costs as much as the first.
func (f EventFilter) after(last EventDetails) (query string, args []any) {
	query = eventDetails + " WHERE "
	and := func(yes bool, condition string, with ...any) {
		if yes {
			if len(args) > 0 {
				query += " AND "
			}
			query += condition
			args = append(args, with...)
		}
	}
	order := "e.number"
	switch {
	case !f.Creator.IsZero():
		and(true, "e.creator_id = ? AND e.number > ?", f.Creator, last.Number)
		and(f.World != "", "e.world_id = ?", f.World)
	case f.World != "":
		order = "e.scheduled_at, e.id"
		and(true, "e.world_id = ? AND ("+order+") > (?, ?)", f.World, last.ScheduledAt, last.ID)
	case last.WorldID == "":
		order = "e.world_id, e.scheduled_at, e.id"
		and(true, "e.world_id > ?", detached)
	default:
		order = "e.world_id, e.scheduled_at, e.id"
		and(true, "("+order+") > (?, ?, ?)", last.WorldID, last.ScheduledAt, last.ID)
	}
	and(!f.Since.IsZero(), "e.created_at >= ?", f.Since)
	and(!f.Until.IsZero(), "e.created_at < ?", f.Until)
	and(!f.Before.IsZero(), "e.scheduled_at < ?", f.Before)
	return query + " ORDER BY " + order, args
}

// FindEvent returns an event and its RSVPs in joining order, as they were at one moment, or ErrNoEvent.
func (s *Store) FindEvent(ctx context.Context, id ID) (event EventDetails, rsvps []RSVP, err error) {
	err = s.snapshot(ctx, func(tx *gorm.DB) error {
		event, rsvps = EventDetails{}, nil
		if err := event.read(tx, id); err != nil {
			return err
		}
		return tx.Where("event_number = (SELECT number FROM events WHERE id = ?)", id).
			Order("created_at, user_number").Find(&rsvps).Error
	})
	return event, rsvps, wrap(err, "find event %s", id)
}

func (e *EventDetails) read(tx *gorm.DB, id ID) error {
	res := tx.Raw(eventDetails+" WHERE e.id = ?", id).Scan(e)
	if res.Error == nil && res.RowsAffected == 0 {
		return ErrNoEvent
	}
	return res.Error
}

// EventEdit has the changes of EditEvent; nil leaves a value alone. The values must fit the contract, which this package does not know.
type EventEdit struct {
	Name, Description *string
	ScheduledAt       *time.Time
}

// EditEvent changes an event and returns it, or ErrNoEvent. Id and RSVPs stay.
func (s *Store) EditEvent(ctx context.Context, id ID, edit EventEdit) (EventDetails, error) {
	var event EventDetails
	err := s.transaction(ctx, func(tx *gorm.DB) error {
		event = EventDetails{}
		if err := tx.Model(&Event{}).Where("id = ?", id).Updates(edit).Error; err != nil {
			return err
		}
		return event.read(tx, id)
	})
	if event.WorldID != "" {
		s.tell()
	}
	return event, wrap(err, "edit event %s", id)
}

// World is a world that has events.
type World struct {
	WorldID string
	Events  int64
	Newest  time.Time // when the last of them was made
}

// EachWorld calls each with all worlds that have events, by name, until it returns an error or ctx ends. It reads batches, not one moment.
func (s *Store) EachWorld(ctx context.Context, each func(World) error) error {
	return eachBatch(ctx, batchOfWorlds, oneByOne(each), func(after World) (worlds []World, err error) {
		err = s.read(ctx, func(tx *gorm.DB) (err error) {
			worlds, err = worldsAfter(tx, after.WorldID)
			return err
		})
		return worlds, wrap(err, "list worlds")
	})
}

const batchOfWorlds = 500 // are read at once

// worldsAfter reads the next worlds by name. The zero name is that of detached events.
func worldsAfter(tx *gorm.DB, after string) (worlds []World, err error) {
	rows, err := tx.Raw(`
		SELECT world_id, count(*), max(created_at) FROM events e WHERE world_id > ? GROUP BY world_id ORDER BY world_id LIMIT ?`,
		after, batchOfWorlds).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w World
		if err := rows.Scan(&w.WorldID, &w.Events, (*computedTime)(&w.Newest)); err != nil {
			return nil, err
		}
		worlds = append(worlds, w)
	}
	return worlds, rows.Err()
}

// computedTime is the time of an expression. SQLite's driver knows the types of columns only, and returns such a time as text.
type computedTime time.Time

func (t *computedTime) Scan(value any) error {
	switch value := value.(type) {
	case time.Time:
		*t = computedTime(value)
		return nil
	case string:
		parsed, err := time.Parse("2006-01-02 15:04:05.999999999-07:00", value)
		*t = computedTime(parsed)
		return err
	}
	return fmt.Errorf("scan %T: not a time", value)
}
