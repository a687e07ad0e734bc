package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"worldevents/gen"
	"worldevents/models"
)

// maxHeld is how many bytes of a list, before they are JSON, are held in memory: to have an ETag, and to be shared by
// those who ask for the same. A larger list is streamed.
const maxHeld = 256 << 10

// ListEvents answers the events of a world, or one page of them.
func (s *Server) ListEvents(ctx context.Context, r gen.ListEventsRequestObject) (gen.ListEventsResponseObject, error) {
	call := callOf(ctx)
	key := newListKey(r.ID, call.request.URL.RawQuery)
	span, err := key.span(r.Params)
	if err != nil {
		return nil, err
	}
	a := asker{call.user.Subject, call.request.Header["If-None-Match"]}
	f, err := s.lists.share(ctx, key, a, func(ctx context.Context, f *flight) error {
		return s.readList(ctx, span, key, f)
	})
	if err != nil {
		return nil, err
	}
	return listAnswer{f, call}, nil
}

// span is what the parameters select.
func (k listKey) span(p gen.ListEventsParams) (models.Span, error) {
	span := models.Span{WorldID: k.world, From: bound(p.From), To: bound(p.To)}
	if p.Limit != nil {
		span.Limit = int(*p.Limit)
	}
	if p.Cursor != nil {
		var ok bool
		if span.After, ok = readCursor(k.world, *p.Cursor); !ok {
			return span, errValidation.with(map[string]string{"cursor": "must be a cursor from the Link of this world's list"})
		}
	}
	return span, nil
}

// bound is a bound of scheduledAt, which is whole milliseconds: digits beyond round up. Past the last instant that
// an event can have it is just that, since neither database need know the year 10000.
func bound(d *gen.DateTime) time.Time {
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

// readList reads a list into f, whole or until it is too large to hold; or finds that all who ask have it.
func (s *Server) readList(ctx context.Context, span models.Span, key listKey, f *flight) error {
	f.list = s.store.List(span)
	users := f.users()
	only := "" // the one user who asks, whose existence the first statement checks along
	if len(users) == 1 {
		only = users[0]
	} else if err := s.checkAskers(ctx, f, users); err != nil {
		return err
	}
	stable := s.lists.stable.get(key)
	held := stable != nil && f.allHold(stable.tag)
	if held && stable.isStable() {
		digest, ok, err := s.store.ListDigest(ctx, span, only)
		if err != nil {
			return err
		}
		if ok && digest == stable.digest {
			f.tag, f.list.Done = stable.tag, true
			return nil
		}
	}
	if held && stable.isNearly() {
		f.list.WithDigest()
	}
	batches := 0
	for !f.list.Done && f.text.Size() < maxHeld {
		err := f.list.Next(ctx, only, f.text)
		if only != "" && errors.Is(err, models.ErrNoUser) {
			f.unknown = map[string]bool{only: true}
			return nil
		}
		if err != nil {
			return err
		}
		only = ""
		batches++
	}
	last := f.list.Last
	if !f.list.Done && span.Limit > 0 {
		var err error
		if last, err = f.list.Fix(ctx); err != nil {
			return err
		}
	}
	if f.list.More {
		f.link = s.nextLink(key, last)
	}
	if f.list.Done {
		f.tag = tagOf(f.link, f.text.read)
		if batches == 1 && f.link == "" && f.text.Size() > 0 {
			s.lists.stable.note(key, stable, f)
		}
	}
	return nil
}

// tagOf makes an ETag. Nobody gains by two lists with one tag, so it need not cost what a cryptographic hash does.
func tagOf(link string, text []byte) string {
	var sum xxhash.Digest
	sum.Reset()
	sum.WriteString(link)
	sum.WriteString("\n")
	sum.Write(text)
	return `W/"` + hex.EncodeToString(sum.Sum(nil)) + `"`
}

// checkAskers notes which of those who share f do not exist: sharing a list never skips a caller's own check.
func (s *Server) checkAskers(ctx context.Context, f *flight, users []string) error {
	known, err := s.store.Known(ctx, users)
	f.unknown = make(map[string]bool)
	for _, id := range users {
		if !known[id] {
			f.unknown[id] = true
		}
	}
	return err
}

// nextLink is the page that begins behind place (RFC 8288), asked for with the same from, to and limit.
func (s *Server) nextLink(key listKey, place models.Place) string {
	var b strings.Builder
	b.WriteString("<" + s.baseURL + "/api/event/" + url.PathEscape(key.world) + "?")
	for _, p := range []struct{ name, value string }{{"from", key.from}, {"to", key.to}, {"limit", key.limit}} {
		if p.value != "" {
			b.WriteString(p.name + "=" + url.QueryEscape(p.value) + "&")
		}
	}
	b.WriteString("cursor=" + writeCursor(key.world, place) + `>; rel="next"`)
	return b.String()
}

// listAnswer is the answer 200, or 304 when the client has it already.
type listAnswer struct {
	*flight
	call *call
}

// VisitListEventsResponse writes the answer.
func (a listAnswer) VisitListEventsResponse(w http.ResponseWriter) error {
	h := w.Header()
	h["Cache-Control"] = revalidate
	h["Vary"] = varyList
	if a.link != "" {
		h.Set("Link", a.link)
	}
	if !a.list.Done {
		h["Content-Type"] = jsonType
		w.WriteHeader(http.StatusOK)
		return a.stream(w)
	}
	defer a.release()
	h["Etag"] = []string{a.tag}
	if matches(a.call.request.Header["If-None-Match"], a.tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := a.json()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(body)
	return goneOr(err)
}

var (
	revalidate = []string{"private, no-cache"}
	varyList   = []string{"Cookie, Origin"}
	jsonType   = []string{"application/json"}
)

// chunkPatience is how long a client may take to read a chunk of a streamed list.
const chunkPatience = 30 * time.Second

// chunkSize is how much of a streamed list is encoded and written together, in bytes of JSON: more would have to come
// back from slower memory.
const chunkSize = 128 << 10

// stream writes a list that is too large to hold: what has been read of it, then batch by batch. No connection to the
// database is held while the client reads, and one batch of memory at the most. An error aborts the answer: it must
// not end as if it were whole.
func (a listAnswer) stream(w http.ResponseWriter) error {
	a.call.storeUntil = time.Time{} // each batch has the store's whole timeout
	control := http.NewResponseController(w)
	write := func(chunk []byte) error {
		control.SetWriteDeadline(time.Now().Add(chunkPatience))
		_, err := w.Write(chunk)
		return goneOr(err)
	}
	begin := a.json()
	list, text := *a.list, a.text.fork() // others who share the beginning go on by themselves
	defer text.free()
	err := write(begin)
	a.release()
	for err == nil && !list.Done {
		err = list.Next(a.call, "", text)
		for all := false; err == nil && !all; text.json = text.json[:0] {
			all = text.encode(chunkSize, list.Done)
			err = write(text.json)
		}
	}
	return err
}

// errGone is the error of writing to a client that is gone, or that reads too slowly.
var errGone = errors.New("client is gone")

func goneOr(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// matches compares weakly, as If-None-Match does (RFC 9110 section 13.1.2).
func matches(lines []string, tag string) bool {
	opaque := strings.TrimPrefix(tag, "W/")
	for _, line := range lines {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == opaque {
				return true
			}
		}
	}
	return false
}
