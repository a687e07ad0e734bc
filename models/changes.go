package models

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"

	"gorm.io/gorm"
)

// Hint stands for an event or a world in whose list something may have changed: a short hash, the same on all instances.
// It is no data: one that is lost, doubled or false costs a delay or a reading, and never makes a list wrong.
type Hint uint64

// EventHint is the hint of joining and leaving.
func EventHint(id ID) Hint { return newHint('e', id[:]) }

// WorldHint is the hint that a world has other events than before.
func WorldHint(world string) Hint { return newHint('w', []byte(world)) }

func newHint(kind byte, of []byte) Hint {
	hash := fnv.New64a()
	hash.Write([]byte{kind})
	hash.Write(of)
	return Hint(binary.BigEndian.Uint64(hash.Sum(nil)))
}

// Source says how a hint came.
type Source int

const (
	// OwnWrite is a write of this Store: it is committed, and its call has not returned yet.
	OwnWrite Source = iota
	// Notified is a write of another instance.
	Notified
)

// Subscribe has fn called with every hint from now on. It must return quickly: writes wait for it. On PostgreSQL it also
// begins to listen for other instances, and log gets a line whenever that begins to work or no longer does. There is one
// subscriber, for the life of the Store.
func (s *Store) Subscribe(log *slog.Logger, fn func(Source, ...Hint)) {
	s.subscriber.Store(&fn)
	if s.instances != nil {
		s.instances.listen(log, fn)
	}
}

// Hears reports whether hints of other instances arrive. While it is false only reading finds what others write: on SQLite,
// behind a pooler that does not pass on notifications, and while the connection is away.
func (s *Store) Hears() bool { return s.instances.Hears() }

// Instances returns what is known of other instances' hints, for metrics; nil on SQLite, where there are none.
func (s *Store) Instances() *Instances { return s.instances }

// WritePosition returns a value that equals an earlier one only if all that became visible in between was hinted at as an
// OwnWrite. After an error it is unknown.
func (s *Store) WritePosition(ctx context.Context) (position int64, err error) {
	if s.dialect.isFile {
		position, err = s.dataVersion(ctx)
	} else {
		err = s.read(ctx, func(tx *gorm.DB) error { return scan(tx.Raw(s.dialect.positionQuery), &position) })
	}
	if err != nil {
		return 0, fmt.Errorf("look for writes: %w", err)
	}
	return position, nil
}

// change is write for what changes a list. fn reports whether it may have, which it may also have with an error: nobody
// knows what became of a statement whose result did not arrive. The hint goes out before change returns.
func (s *Store) change(ctx context.Context, hint Hint, fn func(tx *gorm.DB) (changed bool, err error)) error {
	changed := false
	err := s.write(ctx, func(tx *gorm.DB) (err error) {
		changed, err = fn(tx)
		return err
	})
	if changed {
		s.tell(hint)
	}
	return err
}

// tell sends hints out, after a write.
func (s *Store) tell(hints ...Hint) {
	if len(hints) == 0 {
		return
	}
	if fn := s.subscriber.Load(); fn != nil {
		(*fn)(OwnWrite, hints...)
	}
	if s.instances != nil {
		for _, hint := range hints {
			s.instances.notifier.add(hint)
		}
	}
}

// tellOf is tell for all events that a user has joined, whose ids are read before the write.
func (s *Store) tellOf(joined []ID) {
	hints := make([]Hint, len(joined))
	for i, id := range joined {
		hints[i] = EventHint(id)
	}
	s.tell(hints...)
}

// eventsJoined returns the events that a user has joined.
func eventsJoined(tx *gorm.DB, user User) (joined []ID, err error) {
	err = tx.Raw("SELECT id FROM events WHERE number IN (SELECT event_number FROM rsvps WHERE user_number = ?)", user.Number).Scan(&joined).Error
	return joined, err
}
