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

// Bounds of lists and their responses. Package ledger's table has their states.
const (
	// maxReading bounds the readings of a user at once, alone or shared, maxReadQueue those in the queue, and maxReadQueueTime the wait
	// there: more get models.ErrBusy.
	maxReading       = 16
	maxReadQueue     = 256
	maxReadQueueTime = 10 * time.Second

	// inVainTime is how long a reading in vain keeps its connection, or half of the longest wait for one, if that is less.
	inVainTime = 500 * time.Millisecond

	// maxList bounds the JSON of a list, in bytes.
	maxList = 32 << 20
	// maxOwn bounds a list that counts for its readers only, in bytes; a user may have maxSmall of these. Lists up to maxUncounted are
	// free.
	maxOwn       = 256 << 10
	maxSmall     = 8 << 20
	maxUncounted = 16 << 10
	// maxMemory bounds all other lists of an instance together, in bytes.
	maxMemory = 96 << 20
	// roomStep is the step in which a reading acquires room, in bytes.
	roomStep = 1 << 20
)

// holdings count by user: turns to read, connections that read, and bytes.
type holdings struct{ reading, readers, small, memory *ledger.Ledger[models.ID] }

// newHoldings gives a user a quarter of the readers, at least one.
func newHoldings(readers int) holdings {
	return holdings{
		reading: ledger.NewQueue[models.ID](ledger.Each(maxReading), ledger.Each(maxReadQueue)),
		readers: ledger.New[models.ID](ledger.Each(max(1, readers/4))),
		small:   ledger.New[models.ID](ledger.Each(maxSmall)),
		memory:  ledger.New[models.ID](ledger.Rule{Limit: maxMemory, Share: maxMemory / 2, Few: roomStep}),
	}
}

// Held returns gauges by their label in metrics.
func (l *Lists) Held() map[string]func() int {
	return map[string]func() int{"list_reads": l.held.reading.Held, "list_readers": l.held.readers.Held, "list_bytes": l.held.memory.Held, "small_list_bytes": l.held.small.Held}
}

// room is the memory of a reading, counted for one of its callers, until the first of them takes the list over.
type room struct {
	memory  *ledger.Ledger[models.ID]
	callers []models.Caller
	holder  models.ID
	held    int
	once    sync.Once
}

// hold grows the room to n bytes, and reports whether there was enough.
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

// release may come from several callers, once the reading is done.
func (r *room) release() {
	r.once.Do(func() {
		if r.held > 0 {
			r.memory.Release(r.holder, r.held)
		}
	})
}

// acquireReader acquires a connection for one of these callers. It returns models.ErrBusy after the wait of any call for a connection.
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

// BeginPage is beginReading for a page that costs the database as much as a list.
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

// beginReading waits for a turn of the user to read. It returns a context and end, to call once; or models.ErrBusy or ErrClientGone.
func (l *Lists) beginReading(ctx context.Context, user models.ID) (reading context.Context, end func(), err error) {
	if !l.held.reading.Try(user, 1) {
		wait, cancel := context.WithTimeout(ctx, maxReadQueueTime)
		defer cancel()
		resume := inflight.FromContext(ctx).Queue()
		err := QueueError(wait, l.held.reading.Acquire(wait, user))
		resume()
		if err != nil {
			return nil, nil, err
		}
		ctx = l.store.WithDeadline(ctx) // the wait does not count
	}
	return ctx, func() { l.held.reading.Release(user, 1) }, nil
}

// QueueError translates an error of Acquire for a request with the context ctx.
func QueueError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return fmt.Errorf("%w: %w", models.ErrBusy, err)
}
