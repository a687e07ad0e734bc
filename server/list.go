package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"worldevents/gen"
	"worldevents/models"
)

// ListEvents answers the events of a world, or one page of them.
func (s *Server) ListEvents(ctx context.Context, r gen.ListEventsRequestObject) (gen.ListEventsResponseObject, error) {
	call := callOf(ctx)
	span := models.Span{WorldID: r.ID, From: bound(r.Params.From), To: bound(r.Params.To)}
	if r.Params.Limit != nil {
		span.Limit = int(*r.Params.Limit)
	}
	if r.Params.Cursor != nil {
		place, ok := readCursor(r.ID, *r.Params.Cursor)
		if !ok {
			return nil, errValidation.with(map[string]string{"cursor": "must be a cursor from the Link of this world's list"})
		}
		span.After = &place
	}
	events, more, err := s.store.List(ctx, call.user.Subject, span)
	if err != nil {
		return nil, err
	}
	list := listAnswer{body: appendList(nil, events), ifNoneMatch: call.request.Header["If-None-Match"]}
	if more {
		last := events[len(events)-1]
		list.link = s.nextLink(r.ID, call.request.URL.Query(), models.Place{ScheduledAt: last.ScheduledAt, ID: last.ID})
	}
	return list, nil
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

// nextLink is the page that begins behind place (RFC 8288), asked for with the same from, to and limit.
func (s *Server) nextLink(world string, query url.Values, place models.Place) string {
	var b strings.Builder
	b.WriteString("<" + s.baseURL + "/api/event/" + escapeSegment(world) + "?")
	for _, name := range []string{"from", "to", "limit"} {
		if query.Has(name) {
			b.WriteString(name + "=" + url.QueryEscape(query.Get(name)) + "&")
		}
	}
	b.WriteString("cursor=" + writeCursor(world, place) + `>; rel="next"`)
	return b.String()
}

// A cursor is a place (8 bytes of milliseconds, 16 of id) and 8 bytes of a digest that tie it to its world.
const cursorBytes = 8 + 16 + 8

func writeCursor(world string, place models.Place) string {
	id := uuid.MustParse(place.ID)
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(place.ScheduledAt.UnixMilli()))
	b = append(b, id[:]...)
	return base64.RawURLEncoding.EncodeToString(append(b, cursorDigest(world, b)...))
}

func readCursor(world, text string) (models.Place, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorBytes || string(b[24:]) != string(cursorDigest(world, b[:24])) {
		return models.Place{}, false
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC()
	return models.Place{ScheduledAt: at, ID: uuid.UUID(b[8:24]).String()}, true
}

func cursorDigest(world string, place []byte) []byte {
	sum := sha256.Sum256(append([]byte(world+"\x00"), place...))
	return sum[:8]
}

// listAnswer is the answer 200, or 304 when the client has it already.
type listAnswer struct {
	body        []byte
	link        string
	ifNoneMatch []string
}

// VisitListEventsResponse writes the answer.
func (a listAnswer) VisitListEventsResponse(w http.ResponseWriter) error {
	h := w.Header()
	sum := sha256.Sum256(append([]byte(a.link+"\n"), a.body...))
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	h.Set("ETag", tag)
	if a.link != "" {
		h.Set("Link", a.link)
	}
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Cookie, Origin")
	if matches(a.ifNoneMatch, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(a.body)
	return err
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

// appendList writes the JSON of a list. It is gen.EventList, without the reflection and the copies.
func appendList(b []byte, events []models.ListedEvent) []byte {
	b = append(b, `{"events":[`...)
	for i, e := range events {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":"`...)
		b = append(b, e.ID...)
		b = append(b, `","name":`...)
		b, _ = jsontext.AppendQuote(b, e.Name)
		b = append(b, `,"description":`...)
		b, _ = jsontext.AppendQuote(b, e.Description)
		b = append(b, `,"scheduledAt":"`...)
		b, _ = gen.DateTime(e.ScheduledAt).AppendText(b)
		b = append(b, `","RSVPs":[`...)
		b = appendRSVPs(b, e.Usernames)
		b = append(b, "]}"...)
	}
	return append(b, "]}"...)
}

// appendRSVPs wraps each string of a JSON array of strings as an RSVP. The strings are JSON already.
func appendRSVPs(b []byte, usernames string) []byte {
	for i := 0; i < len(usernames); i++ {
		if usernames[i] != '"' {
			continue // brackets, commas, white space
		}
		end := i + 1
		for usernames[end] != '"' {
			if usernames[end] == '\\' {
				end++
			}
			end++
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, `{"user":{"username":`...)
		b = append(b, usernames[i:end+1]...)
		b = append(b, "}}"...)
		i = end
	}
	return b
}
