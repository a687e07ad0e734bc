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

	"worldevents/gen"
	"worldevents/models"
)

// maxHeld is how long a list may be that is held and not streamed, in bytes of JSON.
const maxHeld = 1 << 20

// nobody is who holds what is read for several.
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
	known   knownLists
	batched batchedLists
	held    holdings
	hub     *hub
	ways    [ways]atomic.Uint64

	// Pause is called with a request's context when the request begins to wait for its turn, and what it returns
	// when the request goes on.
	Pause func(context.Context) (resume func())
	// Leave is called with a request's context when the request begins to wait for news: from then on it is none that is in
	// flight. slow is to be called when its response begins to wait for its client. Heard is closed when the client sends more
	// than the request, and nil if nobody listens.
	Leave func(ctx context.Context, slow func()) (heard <-chan struct{})
	// Lag is called after each response to a request that waited for news which a write of this instance was, with the
	// time since that write.
	Lag func(time.Duration)
}

// New returns the lists of a store. Links begin with baseURL, which has no slash at its end. ETags are made with a key
// that is derived from secret: all instances need the same, and nobody else may have it.
func New(store *models.Store, baseURL string, secret []byte, wait WaitOptions) *Lists {
	l := &Lists{
		store: store, baseURL: baseURL,
		reads:   coalescer{running: make(map[readKey]*sharedRead), timeout: store.Timeout()},
		known:   knownLists{seed: maphash.MakeSeed()},
		batched: batchedLists{seed: maphash.MakeSeed()},
		held:    newHoldings(wait),
		Pause:   func(context.Context) func() { return func() {} },
		Leave:   func(context.Context, func()) <-chan struct{} { return nil },
		Lag:     func(time.Duration) {},
	}
	l.SetKey(secret)
	l.hub = newHub(l)
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

	// watches means that the hints of the list are wanted, unless it has the ETag hintsOf.
	watches bool
	hintsOf string
}

// Get returns a response that reflects every write that was acknowledged before the call. It must be written, which
// also gives back its memory. ctx is the request's; Write goes on with it. It returns ErrCursor, models.ErrSignedOut
// when the caller is not active, models.ErrBusy when too many lists are being read for them, and the errors of reading.
func (l *Lists) Get(ctx context.Context, q Query, caller Caller) (*Response, error) {
	key := newReadKey(q.World, q.Raw)
	span, err := newSpan(q)
	if err != nil {
		return nil, err
	}
	waited, err := l.beginReading(ctx, caller.UserID)
	if err != nil {
		return nil, fmt.Errorf("wait to list events of world %q: %w", key.world, err)
	}
	if waited { // that was none of the store's time
		ctx = context.WithValue(ctx, models.Deadline{}, time.Now().Add(l.store.Timeout()))
	}
	r, err := l.reads.doTwice(ctx, key, caller, l.reader(span, key))
	if err != nil {
		l.held.reading.Release(caller.UserID, 1)
		return nil, err
	}
	return &Response{sharedRead: r, ctx: ctx, lists: l, key: key, span: span, caller: caller, reading: true}, nil
}

// reader reads a list.
func (l *Lists) reader(span models.ListOptions, key readKey) func(context.Context, *sharedRead) error {
	return func(ctx context.Context, r *sharedRead) error { return l.read(ctx, span, key, r) }
}

// newSpan is what the parameters select.
func newSpan(q Query) (models.ListOptions, error) {
	span := models.ListOptions{WorldID: q.World, From: roundUpToMilli(q.Params.From), To: roundUpToMilli(q.Params.To)}
	if q.Params.Limit != nil {
		span.Limit = int(*q.Params.Limit)
	}
	if q.Params.Cursor != nil {
		var ok bool
		if span.After, ok = readCursor(q.World, *q.Params.Cursor); !ok {
			return span, ErrCursor
		}
	}
	return span, nil
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

// read reads a list into r, whole or until it is too large to hold; or finds that all callers have it.
func (l *Lists) read(ctx context.Context, span models.ListOptions, key readKey, r *sharedRead) error {
	r.since, r.begun = l.hub.hints.count.Load(), time.Now()
	r.list, r.tagger = l.store.List(span), l.tagger.Load()
	callers, batched := r.distinctCallers(), l.batched.has(key)
	entry := l.known.get(key, r.tagger)
	if entry != nil && len(callers) <= maxCallers && r.allMatch(entry.etag) && r.hintsKnown(entry.etag) {
		changes, err := l.store.ChangedSince(ctx, entry.moment, key.world, callers)
		if err != nil {
			return err
		}
		if r.signedOut = changes.SignedOut; !changes.Changed {
			r.etag, r.link, r.list.Done, r.unread = entry.etag, entry.link, true, true
			l.known.advance(key, entry, changes.Now)
			return nil
		}
		l.known.remove(key, entry)
		if len(r.signedOut) == len(callers) && len(callers) > 0 {
			return nil // nobody is left to read it for
		}
	}
	var soleCaller models.Caller // whom the first statement checks along
	if len(callers) == 1 {
		soleCaller = callers[0]
	} else if err := l.checkCallers(ctx, r, callers); err != nil {
		return err
	}
	part := heldPart{lists: l, records: r.records, until: time.Now().Add(l.store.Timeout() / 2)}
	defer part.end()
	var err error
	if !batched {
		err = r.list.Next(ctx, soleCaller, r.records)
	}
	if err == nil && !r.list.Done {
		r.list = l.store.List(span) // other statements would see another moment
		r.records.reset()
		err = r.list.Snapshot(ctx, soleCaller, r.records, part.wantsMore)
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
	if !r.list.Done && span.Limit > 0 {
		var err error
		if last, err = r.list.PinPage(ctx); err != nil {
			return err
		}
	}
	if r.list.More {
		r.link = l.nextLink(key, last)
	}
	if r.list.Done && part.size() <= maxHeld {
		r.etag = r.tagger.etag(r.link, r.records.bytes)
		if r.allMatch(r.etag) {
			l.known.add(key, r)
		}
		if slices.ContainsFunc(r.callers, func(c Caller) bool { return c.watches }) {
			r.hints = r.records.hints(key.world)
		}
	}
	return nil
}

// checkCallers notes which callers are not active: sharing a reading never skips a caller's own check.
func (l *Lists) checkCallers(ctx context.Context, r *sharedRead, callers []models.Caller) (err error) {
	r.signedOut, err = l.signedOut(ctx, callers)
	return err
}

// distinctCallers are those who share r, each once. A reading of the service itself has no caller.
func (r *sharedRead) distinctCallers() []models.Caller {
	callers := make([]models.Caller, 0, len(r.callers))
	for _, caller := range r.callers {
		if caller.Caller != (models.Caller{}) {
			callers = append(callers, caller.Caller)
		}
	}
	slices.SortFunc(callers, func(a, b models.Caller) int {
		return cmp.Or(bytes.Compare(a.UserID[:], b.UserID[:]), bytes.Compare(a.SessionID[:], b.SessionID[:]))
	})
	return slices.Compact(callers)
}

// allMatch reports whether every caller's If-None-Match matches etag.
func (r *sharedRead) allMatch(etag string) bool {
	return !slices.ContainsFunc(r.callers, func(c Caller) bool { return !etagMatches(c.IfNoneMatch, etag) })
}

// hintsKnown reports whether nobody wants the hints of the list with this ETag.
func (r *sharedRead) hintsKnown(etag string) bool {
	return !slices.ContainsFunc(r.callers, func(c Caller) bool { return c.watches && c.hintsOf != etag })
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
