package eventlist

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"net/url"
	"slices"
	"strings"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// maxBuffered is the size at which a list is no longer held but streamed, in bytes before they are JSON.
const maxBuffered = 256 << 10

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
	tagger  *tagger
	reads   coalescer
	known   fingerprintCache
}

// New returns the lists of a store. Links begin with baseURL, which has no slash at its end. ETags are made with a key
// that is derived from secret: all instances need the same, and nobody else may have it.
func New(store *models.Store, baseURL string, secret []byte) *Lists {
	return &Lists{
		store: store, baseURL: baseURL, tagger: newTagger(secret),
		reads: coalescer{running: make(map[readKey]*sharedRead), timeout: store.Timeout()},
		known: fingerprintCache{seed: maphash.MakeSeed()},
	}
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
	// User must exist.
	User models.ID
	// IfNoneMatch are the lines of that header.
	IfNoneMatch []string
}

// Get returns a response that reflects every write that was acknowledged before the call. It must be written, which
// also gives back its memory. ctx is the request's; Write goes on with it. It returns ErrCursor, models.ErrNoUser when
// the caller does not exist, and the errors of reading.
func (l *Lists) Get(ctx context.Context, q Query, caller Caller) (*Response, error) {
	key := newReadKey(q.World, q.Raw)
	span, err := newSpan(q)
	if err != nil {
		return nil, err
	}
	r, err := l.reads.doTwice(ctx, key, caller, func(ctx context.Context, r *sharedRead) error { return l.read(ctx, span, key, r) })
	if err != nil {
		return nil, err
	}
	return &Response{r, ctx, caller.IfNoneMatch}, nil
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
	r.list = l.store.List(span)
	users := r.users()
	var soleUser models.ID // whose existence the first statement checks along
	if len(users) == 1 {
		soleUser = users[0]
	} else if err := l.checkUsers(ctx, r, users); err != nil {
		return err
	}
	entry := l.known.get(span)
	match := entry != nil && r.allMatch(entry.etag)
	if match && entry.useFingerprint() {
		fingerprint, ok, err := l.store.ListFingerprint(ctx, span, soleUser)
		if err != nil {
			return err
		}
		if ok && fingerprint == entry.fingerprint {
			r.etag, r.list.Done = entry.etag, true
			return nil
		}
	}
	if match && entry.wantFingerprint() {
		r.list.WithFingerprint()
	}
	batches := 0
	for !r.list.Done && r.records.Size() < maxBuffered {
		err := r.list.Next(ctx, soleUser, r.records)
		if !soleUser.IsZero() && errors.Is(err, models.ErrNoUser) {
			r.unknown = map[models.ID]bool{soleUser: true}
			return nil
		}
		if err != nil {
			return err
		}
		soleUser = models.ID{}
		batches++
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
	if r.list.Done {
		r.etag = l.tagger.etag(r.link, r.records.bytes)
		if batches == 1 && r.link == "" && r.records.Size() > 0 {
			l.known.update(span, entry, r)
		}
	}
	return nil
}

// checkUsers notes which callers do not exist: sharing a reading never skips a caller's own check.
func (l *Lists) checkUsers(ctx context.Context, r *sharedRead, users []models.ID) error {
	known, err := l.store.ExistingUsers(ctx, users)
	r.unknown = make(map[models.ID]bool)
	for _, id := range users {
		if !known[id] {
			r.unknown[id] = true
		}
	}
	return err
}

// users are those who share r, each once.
func (r *sharedRead) users() []models.ID {
	ids := make([]models.ID, len(r.callers))
	for i, caller := range r.callers {
		ids[i] = caller.User
	}
	slices.SortFunc(ids, func(a, b models.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

// allMatch reports whether every caller's If-None-Match matches etag.
func (r *sharedRead) allMatch(etag string) bool {
	return !slices.ContainsFunc(r.callers, func(c Caller) bool { return !etagMatches(c.IfNoneMatch, etag) })
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
