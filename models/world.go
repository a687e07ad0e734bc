package models

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// World is a world that has events.
type World struct {
	WorldID string
	Events  int64
	Newest  time.Time // when the last of them was made
}

// EachWorld calls each with all worlds that have events, in the order of their names, until it returns an error
// or ctx ends. It reads batches, so it sees no single moment.
func (s *Store) EachWorld(ctx context.Context, each func(World) error) error {
	return eachBatch(ctx, batchOfWorlds, oneByOne(each), func(after World) (worlds []World, err error) {
		err = s.read(ctx, func(tx *gorm.DB) (err error) {
			worlds, err = worldsAfter(tx, after.WorldID)
			return err
		})
		if err != nil {
			err = fmt.Errorf("list worlds: %w", err)
		}
		return worlds, err
	})
}

// batchOfWorlds is how many worlds are read at once.
const batchOfWorlds = 500

// worldsAfter reads worlds behind one in the order of their names. The zero name is that of detached events.
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

// computedTime is the time of an expression. SQLite's driver knows the types of columns alone, and returns such
// a time as text.
type computedTime time.Time

// Scan implements sql.Scanner.
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
