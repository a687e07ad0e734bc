package eventlist

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/models"
)

// nobody is the key of what is held for several users.
var nobody models.ID

var (
	// ErrCursor is returned by Get for a cursor that was not made for this world.
	ErrCursor = errors.New("not a cursor of this world's list")
	// ErrClientGone is returned by Write when the client has closed the connection, or reads too slowly.
	ErrClientGone = errors.New("client is gone")
)

// Lists reads and shares lists. Its methods may be called concurrently.
type Lists struct {
	store   *models.Store
	baseURL string
	tagger  atomic.Pointer[tagger]
	reads   coalescer
	cache   *cache
	batched batchedLists
	held    holdings
	// readings counts readings of whole lists and of the beginnings of streamed ones.
	ways     *prometheus.CounterVec
	readings prometheus.Counter
}

// New returns the lists of a store. Links begin with baseURL, which has no slash at its end. ETags are made with a key
// that is derived from secret: all instances need the same, and nobody else may have it. Lists that were read are kept in up to
// cacheBytes.
func New(store *models.Store, baseURL string, secret []byte, cacheBytes int) *Lists {
	l := &Lists{
		store: store, baseURL: baseURL,
		reads:   coalescer{running: make(map[readKey]*sharedRead), timeout: store.Timeout()},
		cache:   newCache(cacheBytes),
		batched: batchedLists{seed: maphash.MakeSeed()},
		held:    newHoldings(),
		ways:    newWays(), readings: newReadings(),
	}
	l.SetKey(secret)
	return l
}

// Caller is who asks.
type Caller struct {
	// Caller must be active.
	models.Caller
	// IfNoneMatch is the lines of that header. Gzip means that the client accepts that coding.
	IfNoneMatch []string
	Gzip        bool
}

// Get returns a response that reflects every write that was acknowledged before the call. It must be written or discarded.
// ctx is the request's; Write goes on with it. It returns ErrCursor, models.ErrSignedOut when the caller is not active,
// models.ErrBusy when too many lists are being read for them, and the errors of reading.
func (l *Lists) Get(ctx context.Context, q Query, caller Caller) (*Response, error) {
	key := newReadKey(q.World, q.Raw)
	options, err := newListOptions(q)
	if err != nil {
		return nil, err
	}
	queued, err := l.beginReading(ctx, caller.UserID)
	if err != nil {
		return nil, fmt.Errorf("queue to list events of world %q: %w", key.world, err)
	}
	if queued { // that was none of the store's time
		ctx = l.store.WithDeadline(ctx)
	}
	r, err := l.reads.doTwice(ctx, key, caller, listReader{l, options, key})
	if err != nil {
		l.held.reading.Release(caller.UserID, 1)
		return nil, err
	}
	return &Response{sharedRead: r, ctx: ctx, lists: l, key: key, options: options, caller: caller, reading: true}, nil
}
