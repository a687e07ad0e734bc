package models

import (
	"context"
	"fmt"
	"log/slog"

	"gorm.io/gorm"

	"worldevents/models/internal/notify"
)

// Subscribe has fn called after each write of this Store that may have changed a list, with own set, and before
// the write returns. So fn must return quickly. On PostgreSQL it also begins to listen for other instances, and
// calls fn when one of them has written. log gets a line when listening begins to work and when it stops
// working.
//
// A call of fn carries no data. A needless call costs one question to the database; a lost one costs a delay.
// There is one subscriber, for the life of the Store.
func (s *Store) Subscribe(log *slog.Logger, fn func(own bool)) {
	s.subscriber.Store(&fn)
	if s.instances != nil {
		s.instances.Listen(log, func() { fn(false) })
	}
}

// Hears reports whether this instance hears the notifications of others. Otherwise only asking the database
// finds what they write: on SQLite, behind a pooler that does not pass notifications on, and while the
// connection is lost.
func (s *Store) Hears() bool { return s.instances.Hears() }

// Instances tells the instances that share a PostgreSQL database when one of them has written.
type Instances = notify.Instances

// Instances returns the notifications that were sent and received, for metrics; nil on SQLite, where there are
// none.
func (s *Store) Instances() *Instances { return s.instances }

// tell announces, here and to other instances, that a write may have changed lists.
func (s *Store) tell() {
	if fn := s.subscriber.Load(); fn != nil {
		(*fn)(true)
	}
	if s.instances != nil {
		s.instances.Tell()
	}
}

// maxChangedWorlds is how many worlds WorldsSince names, and how many marks it reads. With more than these it
// says All: looking at every watched list once is cheaper than a longer answer. However many marks have gathered
// since somebody asked, the question takes a few milliseconds.
const maxChangedWorlds = 10_000

// ChangedWorlds is the answer to Store.WorldsSince.
type ChangedWorlds struct {
	// Names are the worlds whose lists may have changed. All means that any list may have.
	Names []string
	All   bool
	// Now is the moment of the answer.
	Now Moment
}

// WorldsSince finds out, in one statement, which worlds have changed since m. One statement has one snapshot:
// the next question begins where this answer ended, with nothing between them. A standby has no marks, so there
// the answer is All.
func (s *Store) WorldsSince(ctx context.Context, m Moment) (ChangedWorlds, error) {
	var answer ChangedWorlds
	err := s.read(ctx, func(tx *gorm.DB) error {
		answer = ChangedWorlds{}
		d, saw := s.dialect.moments, m.sawOrNothing()
		rows, err := tx.Raw("SELECT "+d.now+", ? UNION ALL SELECT * FROM (?) changed", d.lost(saw), d.worlds(saw, maxChangedWorlds+1)).Rows()
		if err != nil {
			return err
		}
		defer rows.Close()
		for first := true; rows.Next(); first = false {
			var text *string
			var lost bool
			if err := rows.Scan(&text, &lost); err != nil {
				return err
			}
			if !first {
				answer.Names = append(answer.Names, *text)
			} else if answer.All = lost; text != nil {
				answer.Now = NewMoment(*text)
			}
		}
		return rows.Err()
	})
	if isInRecovery(err) {
		return ChangedWorlds{All: true}, nil
	}
	if err != nil {
		return ChangedWorlds{}, fmt.Errorf("look for changed worlds: %w", err)
	}
	if !answer.Now.isAfter(m) || len(answer.Names) > maxChangedWorlds {
		answer.All = true
	}
	if answer.All {
		answer.Names = nil
	}
	return answer, nil
}
