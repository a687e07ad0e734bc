package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"worldevents/models/internal/dberr"
)

// Lane keeps calls that need a locked row from delaying others. A call names the ids of the rows that it may have to wait for.
//
//	shared with others ──(no lock in time)──▶ by itself ──(no lock in time)──▶ in a place for a turn, and again ──▶ done, or ErrLocked
//	                                              ▲
//	                names an id of one refused ───┘
//
// A transaction waits for a lock for a moment only. A refused call continues by itself, as do all calls with one of its ids while calls are
// refused, and for a second more. Most of these find that their own rows are free. The others share a few places in turns, so that a call
// that waits for another reason is not behind those that wait for the locked row.
type Lane struct {
	places, connections Connections
	note                func() // counts a call that met a locked row

	mu     sync.Mutex
	locked map[string]time.Time // until when calls that name an id are in the lane
}

// afterRefusal is how long the ids of a refused call are known.
const afterRefusal = time.Second

// NewLane returns a lane whose calls use at most a quarter of the connections of a pool.
func NewLane(all Connections, note func()) *Lane {
	return &Lane{places: NewConnections(max(1, int(all.All/4))), connections: all, note: note, locked: make(map[string]time.Time)}
}

// A call by itself waits for a lock for brief without a place, and for a turn in one.
const (
	brief = 20 * time.Millisecond
	turn  = 100 * time.Millisecond
)

// Run runs shared, unless an id is that of a refused call. Then, or if shared is refused, it runs alone, with the limiter and the patience
// for locks that it gives, again and again until giveUp. It returns ErrLocked, or ErrBusy for want of a place.
func (l *Lane) Run(ids []string, giveUp time.Time, shared func() error, alone func(in Limiter, patience time.Duration) error) error {
	err := dberr.ErrLocked
	if !l.Knows(ids) {
		if err = shared(); !errors.Is(err, dberr.ErrLocked) {
			return err
		}
		l.note()
	}
	in, patience := Limiter(l.connections), brief
	for errors.Is(err, dberr.ErrLocked) && time.Now().Before(giveUp) {
		err = alone(in, min(patience, time.Until(giveUp)))
		in, patience = l, turn
	}
	return err
}

// Do implements Limiter. A call gets a place before it queues for a connection. Work that is refused at once returns ErrBusy, against a busy loop.
func (l *Lane) Do(ctx context.Context, deadline, giveUp time.Time, work func() error) error {
	turnOf := func() error {
		begun := time.Now()
		err := work()
		if errors.Is(err, dberr.ErrLocked) && time.Since(begun) < min(turn/2, giveUp.Sub(begun)/2) {
			return fmt.Errorf("%w: %v", dberr.ErrBusy, err)
		}
		return err
	}
	return l.places.Do(ctx, deadline, giveUp, func() error { return l.connections.Do(ctx, deadline, giveUp, turnOf) })
}

// Refused is called with the ids of a call that got no lock in time.
func (l *Lane) Refused(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for id, until := range l.locked {
		if until.Before(now) {
			delete(l.locked, id)
		}
	}
	for _, id := range ids {
		l.locked[id] = now.Add(afterRefusal)
	}
}

// Knows reports whether an id is that of a recently refused call.
func (l *Lane) Knows(ids []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if time.Now().Before(l.locked[id]) {
			return true
		}
	}
	return false
}
