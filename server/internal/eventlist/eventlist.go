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
	// ErrCursor is returned by Get for a cursor of another world, or none of ours.
	ErrCursor = errors.New("not a cursor of this world's list")
	// ErrNoRoom is the models.ErrBusy of a user with too much unread.
	ErrNoRoom = fmt.Errorf("%w: no room for the list", models.ErrBusy)
	// ErrClientGone is returned by Write after the client closed the connection, or read too slowly.
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

// New returns the lists of a store. It logs those that are too long. Links begin with baseURL, which has no slash at its end. The key for
// ETags is derived from secret, which all instances share. The cache takes up to cacheBytes.
func New(store *models.Store, log *slog.Logger, baseURL string, secret []byte, cacheBytes int) *Lists {
	l := &Lists{
		store: store, baseURL: baseURL,
		cache: newCache(cacheBytes),
		held:  newHoldings(store.Readers()),
		ways:  newWays(), long: newLongLists(store, log),
		readings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "worldevents_list_readings_total",
			Help: "Readings of lists from the database, each for all who asked for it together.",
		}),
	}
	l.reads = coalescer{read: l.read, timeout: models.ListTimeout, running: make(map[readKey]*sharedRead)}
	l.SetKey(secret)
	return l
}

type Query struct {
	World  string
	Params gen.ListEventsParams
	// Raw is the query component as sent: Link repeats from, to and limit.
	Raw string
}

// Caller is the sender of a request.
type Caller struct {
	// Caller must be active.
	models.Caller
	// Tags are the EntityTags of If-None-Match. Gzip means that the client accepts gzip.
	Tags []string
	Gzip bool
}

// Get returns a response that reflects every write acknowledged before the call. Write or discard it. ctx is that of the request; Write
// uses it, too. It returns ErrCursor, models.ErrSignedOut for an inactive caller, models.ErrBusy for one with too many readings or too much
// unread, a TooLongError, and the errors of reading.
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

// Check returns ErrCursor for an invalid cursor.
func (q Query) Check() error {
	_, err := newListOptions(q)
	return err
}

func newListOptions(q Query) (models.ListOptions, error) {
	options := models.ListOptions{WorldID: q.World, From: roundUpToMilli(q.Params.From), To: roundUpToMilli(q.Params.To)}
	if q.Params.Limit != nil {
		options.Limit = int(*q.Params.Limit)
	}
	if q.Params.Cursor != nil {
		var ok bool
		if options.After, ok = ReadCursor(q.World, *q.Params.Cursor); !ok {
			return options, ErrCursor
		}
	}
	return options, nil
}

// roundUpToMilli rounds up to the precision of scheduledAt. At the end of the year 9999, which is the last that a database must know, it
// adds a microsecond.
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

// readKey identifies a list, by the parameters as sent, since Link repeats them.
type readKey struct{ world, from, to, limit, cursor string }

func newReadKey(world, rawQuery string) readKey {
	if rawQuery == "" {
		return readKey{world: world}
	}
	query, _ := url.ParseQuery(rawQuery) // checked before
	return readKey{world, query.Get("from"), query.Get("to"), query.Get("limit"), query.Get("cursor")}
}

func (k readKey) size() int {
	return len(k.world) + len(k.from) + len(k.to) + len(k.limit) + len(k.cursor)
}

// clone returns a copy that does not keep the request in memory.
func (k readKey) clone() readKey {
	return readKey{strings.Clone(k.world), strings.Clone(k.from), strings.Clone(k.to), strings.Clone(k.limit), strings.Clone(k.cursor)}
}

// nextLink is the Link to the page after position (RFC 8288), with the same from, to and limit.
func (l *Lists) nextLink(key readKey, position models.Position) string {
	var b strings.Builder
	b.WriteString("<" + l.baseURL + "/api/event/" + url.PathEscape(key.world) + "?")
	for _, p := range []struct{ name, value string }{{"from", key.from}, {"to", key.to}, {"limit", key.limit}} {
		if p.value != "" {
			b.WriteString(p.name + "=" + url.QueryEscape(p.value) + "&")
		}
	}
	b.WriteString("cursor=" + WriteCursor(key.world, position) + `>; rel="next"`)
	return b.String()
}
