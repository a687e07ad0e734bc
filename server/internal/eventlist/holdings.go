package eventlist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"worldevents/models"
	"worldevents/server/internal/inflight"
	"worldevents/server/internal/ledger"
)

// This is how much lists, and the responses that are lists, may hold. The table in package ledger says when they hold what.
const (
	// maxReading is how many requests of a user read lists at once, or share a reading. maxReadQueue is how many are queued for that, and
	// maxReadQueueTime for how long: more get models.ErrBusy.
	maxReading       = 16
	maxReadQueue     = 256
	maxReadQueueTime = 10 * time.Second

	// inVainTime is for how long a reading that was in vain goes on to hold its connection, if that is less than half of the time for which
	// others wait for one.
	inVainTime = 500 * time.Millisecond

	// maxList is how long a list may be, in bytes of JSON.
	maxList = 32 << 20
	// maxOwn is how long a list is at most that counts for nobody but those who read it, in bytes; such lists take maxSmall of one user.
	// Lists of up to maxUncounted count for nobody.
	maxOwn       = 256 << 10
	maxSmall     = 8 << 20
	maxUncounted = 16 << 10
	// maxMemory is how much all others of an instance may hold together, in bytes.
	maxMemory = 96 << 20
	// roomStep is by how much the room of a reading grows, in bytes.
	roomStep = 1 << 20
)

// holdings are what requests and lists hold, by user: turns to read, connections that read, and bytes.
type holdings struct{ reading, readers, small, memory *ledger.Ledger[models.ID] }

// newHoldings has a user hold a quarter of the connections that read, at least one.
func newHoldings(readers int) holdings {
	return holdings{
		reading: ledger.NewQueue[models.ID](ledger.Each(maxReading), ledger.Each(maxReadQueue)),
		readers: ledger.New[models.ID](ledger.Each(max(1, readers/4))),
		small:   ledger.New[models.ID](ledger.Each(maxSmall)),
		memory:  ledger.New[models.ID](ledger.Rule{Limit: maxMemory, Share: maxMemory / 2, Few: roomStep}),
	}
}

// Held returns how much is held of what, by its name in metrics.
func (l *Lists) Held() map[string]func() int {
	return map[string]func() int{"list_reads": l.held.reading.Held, "list_readers": l.held.readers.Held, "list_bytes": l.held.memory.Held, "small_list_bytes": l.held.small.Held}
}

// room is what a reading holds, as one of those who asked for it, until the first of them holds the list itself.
type room struct {
	memory  *ledger.Ledger[models.ID]
	callers []models.Caller
	holder  models.ID
	held    int
	once    sync.Once
}

// hold has the reading hold n bytes, if it does not hold as many, and reports whether it may.
func (r *room) hold(n int) (ok bool) {
	n = min(n, maxMemory/2) // or the longest names of the longest list would never have room
	if n <= maxOwn || n <= r.held {
		return true
	}
	n = min((n+roomStep-1)/roomStep*roomStep, maxMemory/2)
	for _, c := range r.callers {
		if (r.held == 0 || r.holder == c.UserID) && r.memory.Try(c.UserID, n-r.held) {
			r.holder, r.held = c.UserID, n
			return true
		}
	}
	return false
}

// release ends what hold began, once the reading is done.
func (r *room) release() {
	r.once.Do(func() {
		if r.held > 0 {
			r.memory.Release(r.holder, r.held)
		}
	})
}

// acquireReader has a reading for these callers hold a connection, as one of them. It returns models.ErrBusy if none of those that are
// theirs comes free in the time that any call waits for a connection.
func (l *Lists) acquireReader(callers []models.Caller) (release func(), err error) {
	readers := l.held.readers
	i := slices.IndexFunc(callers, func(c models.Caller) bool { return readers.Try(c.UserID, 1) })
	if i < 0 {
		i = 0
		ctx, cancel := context.WithTimeout(context.Background(), l.store.MaxWait())
		defer cancel()
		if err := readers.Acquire(ctx, callers[i].UserID); err != nil {
			return nil, fmt.Errorf("%w: %w", models.ErrBusy, err)
		}
	}
	return func() { readers.Release(callers[i].UserID, 1) }, nil
}

// BeginPage is beginReading for something that costs the database as much as a list.
func (l *Lists) BeginPage(ctx context.Context, user models.ID) (reading context.Context, end func(), err error) {
	ctx, endTurn, err := l.beginReading(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	release, err := l.acquireReader([]models.Caller{{UserID: user}})
	if err != nil {
		endTurn()
		return nil, nil, err
	}
	return l.store.WithDeadline(ctx), func() { release(); endTurn() }, nil
}

// beginReading waits until the user may read one more list. It returns the context to read it with, and end, which the caller calls once;
// or models.ErrBusy or ErrClientGone.
func (l *Lists) beginReading(ctx context.Context, user models.ID) (reading context.Context, end func(), err error) {
	if !l.held.reading.Try(user, 1) {
		wait, cancel := context.WithTimeout(ctx, maxReadQueueTime)
		defer cancel()
		if err := acquire(wait, l.held.reading, user); err != nil {
			return nil, nil, err
		}
		ctx = l.store.WithDeadline(ctx) // that was none of the store's time
	}
	return ctx, func() { l.held.reading.Release(user, 1) }, nil
}

// acquire waits until user holds one more, and counts the request as queued if it must wait. It returns models.ErrBusy and ErrClientGone.
func acquire(ctx context.Context, l *ledger.Ledger[models.ID], user models.ID) error {
	if l.Try(user, 1) {
		return nil
	}
	defer inflight.FromContext(ctx).Queue()()
	return QueueError(ctx, l.Acquire(ctx, user))
}

// QueueError returns what an error of Acquire means to a request whose context is ctx.
func QueueError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return fmt.Errorf("%w: %w", models.ErrBusy, err)
}
