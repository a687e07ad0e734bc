package eventlist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/gen"
	"worldevents/models"
)

var (
	// ErrCursor is returned by Get for a cursor that was not made for this world.
	ErrCursor = errors.New("not a cursor of this world's list")
	// ErrNoRoom is the models.ErrBusy of a user who has yet to read too much.
	ErrNoRoom = fmt.Errorf("%w: no room for the list", models.ErrBusy)
	// ErrClientGone is returned by Write when the client has closed the connection, or reads too slowly.
	ErrClientGone = errors.New("client is gone")
)

// Lists reads and shares lists. Its methods may be called concurrently.
type Lists struct {
	store    *models.Store
	baseURL  string
	tagger   atomic.Pointer[tagger]
	reads    coalescer
	cache    *cache
	held     holdings
	ways     *prometheus.CounterVec
	readings prometheus.Counter
	long     *longLists
}

// New returns the lists of a store. It warns log of those that are too long. Links begin with baseURL, which has no slash at its end. ETags are made
// with a key that is derived from secret: all instances need the same, and nobody else may have it. Lists that were read are kept in up to
// cacheBytes.
func New(store *models.Store, log *slog.Logger, baseURL string, secret []byte, cacheBytes int) *Lists {
	l := &Lists{
		store: store, baseURL: baseURL,
		cache: newCache(cacheBytes),
		held:  newHoldings(store.Readers()),
		ways:  newWays(), readings: newReadings(), long: newLongLists(store, log),
	}
	l.reads = coalescer{read: l.read, timeout: models.ListTimeout, running: make(map[readKey]*sharedRead)}
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
	// Tags are the EntityTags of If-None-Match. Gzip means that the client accepts that coding.
	Tags []string
	Gzip bool
}

// Get returns a response that reflects every write that was acknowledged before the call. It must be written or discarded.
// ctx is the request's; Write goes on with it. It returns ErrCursor, models.ErrSignedOut when the caller is not active,
// models.ErrBusy when too many lists are being read for them or they hold too much, a TooLongError, and the errors of reading.
func (l *Lists) Get(ctx context.Context, q Query, caller Caller) (*Response, error) {
	key := newReadKey(q.World, q.Raw)
	options, err := newListOptions(q)
	if err != nil {
		return nil, err
	}
	ctx, end, err := l.beginReading(ctx, caller.UserID)
	if err != nil {
		return nil, fmt.Errorf("queue to list events of world %q: %w", key.world, err)
	}
	r, err := l.reads.do(ctx, key, options, caller.Caller)
	if err != nil {
		end()
		return nil, err
	}
	endReading := func() { r.room.release(); end() }
	if r.held.tooLong != nil {
		endReading()
		return nil, r.held.tooLong
	}
	return &Response{sharedRead: r, ctx: ctx, lists: l, caller: caller, endReading: endReading}, nil
}

// Check returns ErrCursor for a cursor that was not made for this world.
func (q Query) Check() error {
	_, err := newListOptions(q)
	return err
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

// readKey is what makes two requests ask for the same list. It has the parameters as they are spelled, since Link
// repeats them.
type readKey struct{ world, from, to, limit, cursor string }

func newReadKey(world, rawQuery string) readKey {
	if rawQuery == "" {
		return readKey{world: world}
	}
	query, _ := url.ParseQuery(rawQuery) // checked before
	return readKey{world, query.Get("from"), query.Get("to"), query.Get("limit"), query.Get("cursor")}
}

// size is how many bytes the texts of a key have.
func (k readKey) size() int {
	return len(k.world) + len(k.from) + len(k.to) + len(k.limit) + len(k.cursor)
}

// clone returns a key that does not keep the request alive.
func (k readKey) clone() readKey {
	return readKey{strings.Clone(k.world), strings.Clone(k.from), strings.Clone(k.to), strings.Clone(k.limit), strings.Clone(k.cursor)}
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
