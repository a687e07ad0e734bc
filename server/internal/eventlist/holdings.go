package eventlist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"worldevents/models"
	"worldevents/server/internal/backpressure"
	"worldevents/server/internal/ledger"
)

// This is how much lists, and the responses that are lists, may hold. The table in package ledger says when they hold what.
const (
	// maxReading is how many requests of a user read lists at once. maxReadQueue is how many are queued for that, and
	// maxReadQueueTime for how long: more get models.ErrBusy.
	maxReading       = 16
	maxReadQueue     = 256
	maxReadQueueTime = 10 * time.Second

	// maxOwn is how much a response may hold while its client reads without being counted, in bytes.
	maxOwn = 32 << 10
	// maxMemory is how much all other responses of an instance may hold together, in bytes.
	maxMemory = 24 << 20
	// streamBytes is what a stream of usual batches holds: a batch, in a buffer that grows by a quarter at a time, and a chunk. A
	// stream that began as a long list holds more until it has written that beginning.
	streamBytes = 768 << 10
	// maxSmall is how many lists are streamed in small batches at once, and maxSmallReads how many such batches are read.
	maxSmall      = 512
	maxSmallReads = 4
)

// holdings are what requests and lists hold, by user.
type holdings struct {
	reading, memory, small, smallReads *ledger.Ledger[models.ID]
}

func newHoldings() holdings {
	return holdings{
		reading:    ledger.NewQueue[models.ID](ledger.Each(maxReading), ledger.Each(maxReadQueue)),
		memory:     ledger.New[models.ID](ledger.Rule{Limit: maxMemory, Share: maxMemory / 8, Few: streamBytes}),
		small:      ledger.New[models.ID](ledger.Eighth(maxSmall)),
		smallReads: ledger.New[models.ID](ledger.Eighth(maxSmallReads)),
	}
}

// Held returns how much is held of what, by its name in metrics.
func (l *Lists) Held() map[string]func() int {
	h := &l.held
	return map[string]func() int{
		"list_reads": h.reading.Held, "list_bytes": h.memory.Held, "small_streams": h.small.Held, "small_reads": h.smallReads.Held,
	}
}

// BeginReading waits until the user may read one more list, or something that costs as much. It returns the context to read it with, and
// end, which the caller calls once; or models.ErrBusy or ErrClientGone.
func (l *Lists) BeginReading(ctx context.Context, user models.ID) (reading context.Context, end func(), err error) {
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
	defer backpressure.FromContext(ctx).Queue()()
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
