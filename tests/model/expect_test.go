package model

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// query is what a list is asked for with.
type query struct {
	from, to, limit, cursor string
	low, high               int64 // milliseconds; of from and to
	most                    int
	after                   *place
}

func wholeWorld() query { return query{high: never} }

// String is the query as part of an address.
func (q query) String() string {
	values := url.Values{}
	for name, value := range map[string]string{"from": q.from, "to": q.to, "limit": q.limit, "cursor": q.cursor} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// covers reports whether an event is in range.
func (q query) covers(e *event) bool {
	return e.at >= q.low && e.at < q.high && (q.after == nil || q.after.compare(e.place()) < 0)
}

// next is the query for what follows the place of a cursor.
func (q query) next(cursor string, after place) query {
	q.cursor, q.after = cursor, &after
	return q
}

// page are the events that a list has now, and whether more follow.
func (w *world) page(q query) (events []*event, more bool) {
	for _, e := range w.events {
		if e.life.alive() && q.covers(e) {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b *event) int { return a.place().compare(b.place()) })
	if q.most > 0 && len(events) > q.most {
		return events[:q.most], true
	}
	return events, false
}

// body is the list of these events.
func body(events []*event) string {
	size := 16
	for _, e := range events {
		size += len(e.text()) + 1
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(`{"events":[`)
	for i, e := range events {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(e.text())
	}
	b.WriteString("]}")
	return b.String()
}

// text is the event as JSON.
func (e *event) text() string {
	if e.json != "" {
		return e.json
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"%s","name":%s,"description":%s,"scheduledAt":"%s","RSVPs":[`,
		e.id, quote(e.name), quote(e.description), instant(e.at))
	for i, r := range e.members() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"user":{"username":` + quote(r.user.name()) + `}}`)
	}
	b.WriteString("]}")
	e.json = b.String()
	return e.json
}

// instant is a time as lists have it.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

var escapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// quote is a text as JSON. No control characters but these three are allowed.
func quote(text string) string { return `"` + escapes.Replace(text) + `"` }

// identity is what an ETag stands for: the body and Link. The place of the cursor follows from the body.
type identity [sha256.Size]byte

func identityOf(w *world, q query, body string, more bool) identity {
	if more {
		body += "\n" + w.name + "\n" + q.from + "\n" + q.to + "\n" + q.limit
	}
	return sha256.Sum256([]byte(body))
}

// isNext says what is wrong with the Link of a page.
func isNext(w *world, q query, link string) (cursor, fault string) {
	address, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	if !ok {
		return "", "is not the next page"
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", err.Error()
	}
	values := u.Query()
	cursor = values.Get("cursor")
	q.cursor = cursor
	if u.RawQuery = ""; u.String() != baseURL+"/api/event/"+url.PathEscape(w.name) {
		return cursor, "leads elsewhere"
	}
	if want, _ := url.ParseQuery(strings.TrimPrefix(q.String(), "?")); cursor == "" || values.Encode() != want.Encode() {
		return cursor, "does not repeat the query"
	}
	return cursor, ""
}
