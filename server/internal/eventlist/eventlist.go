package eventlist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/gen"
	"worldevents/models"
)

// maxHeld is how long a list may be that is held and not streamed, in bytes of JSON.
const maxHeld = 1 << 20

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

// Query is what a request selects.
type Query struct {
	World  string
	Params gen.ListEventsParams
	// Raw is the query component as the client spelled it: Link repeats from, to and limit.
	Raw string
}

// Caller is who asks.
type Caller struct {
	// Caller must be active.
	models.Caller
	// IfNoneMatch is the lines of that header. Gzip means that the client accepts that coding.
	IfNoneMatch []string
	Gzip        bool
}

// Check returns ErrCursor for a cursor that was not made for this world.
func (q Query) Check() error {
	_, err := newListOptions(q)
	return err
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

// listReader reads a list.
type listReader struct {
	lists   *Lists
	options models.ListOptions
	key     readKey
}

// newListOptions is what the parameters select.
func newListOptions(q Query) (models.ListOptions, error) {
	options := models.ListOptions{WorldID: q.World, From: roundUpToMilli(q.Params.From), To: roundUpToMilli(q.Params.To)}
	if q.Params.Limit != nil {
		options.Limit = int(*q.Params.Limit)
	}
	if q.Params.Cursor != nil {
		var ok bool
		if options.After, ok = readCursor(q.World, *q.Params.Cursor); !ok {
			return options, ErrCursor
		}
	}
	return options, nil
}

// roundUpToMilli rounds up to the millisecond, the precision of scheduledAt. After the last instant that an event can
// have it returns one microsecond more than that: neither database need know the year 10000.
func roundUpToMilli(d *gen.DateTime) time.Time {
	if d == nil {
		return time.Time{}
	}
	t := d.Time()
	up := t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	if up.Year() > 9999 {
		return t.Truncate(time.Millisecond).Add(time.Microsecond)
	}
	return up
}

// read reads a list into r: from the cache if its world has not changed, else from the database, whole or until it is too large to hold.
func (lr listReader) read(ctx context.Context, r *sharedRead) error {
	l, key := lr.lists, lr.key
	t, callers := l.tagger.Load(), r.distinctCallers()
	known, ok := l.cache.get(key, t)
	if ok && known.changes < maxChanges && len(callers) <= maxCallers {
		changes, err := l.store.ChangedSince(ctx, known.moment, key.world, callers)
		if err != nil {
			return err
		}
		if r.signedOut = changes.SignedOut; !changes.Changed {
			r.held, r.unread = known.list, true
			l.cache.confirm(key, known.list, changes.Now)
			return nil
		}
		known.changes++
		if len(r.signedOut) == len(callers) {
			return nil // nobody is left to read it for
		}
	}
	if err := lr.readAnew(ctx, r, callers, t); err != nil {
		return err
	}
	switch {
	case len(r.signedOut) == len(callers): // nobody is left to have read it for
	case r.held == nil:
		l.cache.drop(key)
	case ok && r.held.etag == known.list.etag: // other lists of the world are what has changed
		l.cache.put(key, known.user, known.list, r.list.Moment, t, 0)
	default:
		l.cache.put(key, r.callers[0].UserID, r.held, r.list.Moment, t, known.changes)
	}
	return nil
}

// readAnew reads a list from the database.
func (lr listReader) readAnew(ctx context.Context, r *sharedRead, callers []models.Caller, t *tagger) (err error) {
	l, options, key := lr.lists, lr.options, lr.key
	l.readings.Inc()
	var soleCaller models.Caller // whom the first statement checks along
	if len(callers) == 1 {
		soleCaller = callers[0]
	} else if r.signedOut, err = l.signedOut(ctx, callers); err != nil { // sharing a reading never skips a caller's own check
		return err
	}
	json := newEncoder(true)
	defer json.release()
	part := heldPart{lists: l, json: json, until: time.Now().Add(l.store.Timeout() / 2)}
	defer part.end()
	r.list = l.store.List(options)
	if !l.batched.has(key) {
		err = r.list.Next(ctx, soleCaller, json)
	}
	if err == nil && !r.list.Done {
		r.list = l.store.List(options) // other statements would see another moment
		json.Truncate(0)
		err = r.list.Snapshot(ctx, soleCaller, json, part.wantsMore)
		l.batched.set(key, part.batches > 1 || !r.list.Done)
	}
	if soleCaller != (models.Caller{}) && errors.Is(err, models.ErrSignedOut) {
		r.signedOut = map[models.Caller]bool{soleCaller: true}
		return nil
	}
	if err != nil {
		return err
	}
	last := r.list.Last
	if !r.list.Done && options.Limit > 0 {
		if last, err = r.list.PinPage(ctx); err != nil {
			return err
		}
	}
	if r.list.More {
		r.link = l.nextLink(key, last)
	}
	if r.list.Done {
		json.finish()
	}
	r.begun = bytes.Clone(json.out)
	if r.list.Done && len(r.begun) <= maxHeld {
		r.held = &heldList{etag: t.etag(r.link, r.begun), link: r.link, json: r.begun}
	}
	return nil
}

// distinctCallers are those who share r, each once.
func (r *sharedRead) distinctCallers() []models.Caller {
	callers := make([]models.Caller, 0, len(r.callers))
	for _, caller := range r.callers {
		callers = append(callers, caller.Caller)
	}
	slices.SortFunc(callers, func(a, b models.Caller) int {
		return cmp.Or(bytes.Compare(a.UserID[:], b.UserID[:]), bytes.Compare(a.SessionID[:], b.SessionID[:]))
	})
	return slices.Compact(callers)
}

// nextLink is the page that begins after position (RFC 8288), asked for with the same from, to and limit.
func (l *Lists) nextLink(key readKey, position models.Position) string {
	var b strings.Builder
	b.WriteString("<" + l.baseURL + "/api/event/" + url.PathEscape(key.world) + "?")
	for _, p := range []struct{ name, value string }{{"from", key.from}, {"to", key.to}, {"limit", key.limit}} {
		if p.value != "" {
			b.WriteString(p.name + "=" + url.QueryEscape(p.value) + "&")
		}
	}
	b.WriteString("cursor=" + writeCursor(key.world, position) + `>; rel="next"`)
	return b.String()
}
