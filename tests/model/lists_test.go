package model

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

func (m *machine) listAny(t *rapid.T) {
	m.check(t, drawing(t).query(), m.held(t))
}

// held draws a value of If-None-Match.
func (m *machine) held(t *rapid.T) string {
	old := func() string {
		if len(m.seen) == 0 {
			return ""
		}
		return m.seen[rapid.IntRange(0, len(m.seen)-1).Draw(t, "seen")].tag
	}
	switch rapid.IntRange(0, 5).Draw(t, "held") {
	case 0, 1:
		return old()
	case 2:
		return strings.Join([]string{`"x"`, old(), `W/"y"`, old()}, ", ")
	case 3:
		return "*"
	case 4:
		return rapid.SampledFrom([]string{`"x"`, `W/"0123456789abcdef"`, `W/`, `"`, ",,", `W/"`, "**"}).Draw(t, "garbage")
	}
	return ""
}

// listAgain asks for a list that has been asked for before, with the ETag of that time.
func (m *machine) listAgain(t *rapid.T) {
	if len(m.seen) == 0 {
		t.Skip("nothing seen")
	}
	old := m.seen[rapid.IntRange(0, len(m.seen)-1).Draw(t, "seen")]
	m.check(t, old.query, old.tag)
}

// poll asks for a list again and again with the ETag that it has, until the service looks for changes in another way.
func (m *machine) poll(t *rapid.T) {
	q := wholeWorld()
	if rapid.Bool().Draw(t, "shaped") {
		q = drawing(t).query()
	}
	tag := m.check(t, q, "").tag
	for range rapid.IntRange(1, 6).Draw(t, "times") {
		tag = m.check(t, q, tag).tag
	}
}

// page is what a list has shown.
type page struct {
	events []*event
	tag    string
	cursor string
}

// check asks for a list, which must be exactly what the model has.
func (m *machine) check(t *rapid.T, q query, held string) page {
	t.Helper()
	events, more := m.world.page(q)
	want := body(events)
	r, err := m.list(m.user(t), m.instance(t), m.world, q, held)
	ok(err)
	what := fmt.Sprintf("list%s of %d bytes, If-None-Match %s", q, len(want), held)
	p := page{events: events, tag: r.header.Get("ETag")}
	if link := r.header.Get("Link"); (link != "") != more {
		fail("%s: %d events, more follow: %v, Link %q\n%s", what, len(events), more, link, difference(r.body, want))
	} else if more {
		var fault string
		if p.cursor, fault = isNext(m.world, q, link); fault != "" {
			fail("%s: Link %s %s", what, link, fault)
		}
	}
	id := identityOf(m.world, q, want, more)
	if p.tag == "" {
		fail("%s: no ETag", what)
	}
	if p.tag != "" {
		if is, known := m.shown[p.tag]; known && is != id {
			fail("%s: the ETag %s is that of another list", what, p.tag)
		}
		if is, known := m.tags[id]; known && is != p.tag {
			fail("%s: the ETag was %s and is %s", what, is, p.tag)
		}
		m.shown[p.tag], m.tags[id] = id, p.tag
	}
	m.seen = append(m.seen, seen{q, p.tag})
	status, text := 200, want
	if p.tag != "" && (held == "*" || strings.Contains(held, p.tag)) {
		status, text = 304, ""
	}
	if r.status != status || r.body != text {
		fail("%s: %d, want %d with ETag %q\n%s", what, r.status, status, p.tag, difference(r.body, text))
	}
	return p
}

// difference shows two texts where they part.
func difference(got, want string) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	from := max(0, at-60)
	return fmt.Sprintf("at byte %d:\n got %.200q of %d\nwant %.200q of %d", at, got[from:], len(got), want[from:], len(want))
}

// walk is a list that is read page by page, while others write.
type walk struct {
	begun  int64
	first  query
	next   query
	events map[*event]bool
}

func (m *machine) walkBegins(t *rapid.T) { m.beginWalk(t) }

// beginWalk reports whether the walk has more pages than one. The pages of a walk through many events are large, to save
// time.
func (m *machine) beginWalk(t *rapid.T) (goesOn bool) {
	q := drawing(t).query()
	if q.most == 0 || 50*q.most < len(m.world.events) || len(m.walks) > 2 {
		t.Skip("no pages")
	}
	m.walks = append(m.walks, &walk{begun: now(), first: q, next: q, events: make(map[*event]bool)})
	return m.goOn(t, len(m.walks)-1)
}

func (m *machine) walkGoesOn(t *rapid.T) {
	if len(m.walks) == 0 {
		t.Skip("no walk")
	}
	m.goOn(t, rapid.IntRange(0, len(m.walks)-1).Draw(t, "walk"))
}

// walkAtOnce reads a world page by page while nobody writes.
func (m *machine) walkAtOnce(t *rapid.T) {
	for more := m.beginWalk(t); more; {
		more = m.goOn(t, len(m.walks)-1)
	}
}

// goOn reads the next page. The last one ends the walk.
func (m *machine) goOn(t *rapid.T, at int) (more bool) {
	w := m.walks[at]
	p := m.check(t, w.next, "")
	for _, e := range p.events {
		if w.events[e] {
			fail("a walk has event %s twice", e.id)
		}
		w.events[e] = true
	}
	if p.cursor != "" {
		w.next = w.first.next(p.cursor, p.events[len(p.events)-1].place())
		return true
	}
	for _, e := range m.world.events {
		if w.first.covers(e) && e.life.throughout(w.begun, now()) && !w.events[e] {
			fail("a walk%s has missed event %s", w.first, e.id)
		}
	}
	m.walks = append(m.walks[:at], m.walks[at+1:]...)
	return false
}
