package model

import (
	"pgregory.net/rapid"
)

// openStream begins to read the whole world slowly.
func (m *machine) openStream(t *rapid.T) { m.begin(t, wholeWorld()) }

// openPage begins to read any shape of list slowly.
func (m *machine) openPage(t *rapid.T) { m.begin(t, m.anyQuery(t)) }

// begin opens a stream whose buffers a world of some hundred kilobytes overflows.
func (m *machine) begin(t *rapid.T, q query) {
	if len(m.streams) > 1 {
		t.Skip("two are open")
	}
	s, err := m.open(m.client(t), m.instance(t), m.world, q)
	ok(t, err)
	m.streams = append(m.streams, s)
	if s.got.status != 200 {
		t.Fatalf("a stream: %d", s.got.status)
	}
}

func (m *machine) stream(t *rapid.T) int {
	if len(m.streams) == 0 {
		t.Skip("none is open")
	}
	return rapid.IntRange(0, len(m.streams)-1).Draw(t, "stream")
}

func (m *machine) readSome(t *rapid.T) {
	at := m.stream(t)
	s := m.streams[at]
	ended, err := s.some(int64(rapid.SampledFrom([]int{1, 10, 100}).Draw(t, "kilobytes")) << 10)
	if err != nil {
		t.Fatalf("list%s: %v", s.query, err)
	}
	if ended {
		m.ended(t, at)
	}
}

func (m *machine) readRest(t *rapid.T) { m.finish(t, m.stream(t)) }

func (m *machine) finish(t *rapid.T, at int) {
	s := m.streams[at]
	if err := s.rest(); err != nil {
		t.Fatalf("list%s: %v", s.query, err)
	}
	m.ended(t, at)
}

// cut hangs up in the middle.
func (m *machine) cut(t *rapid.T) {
	at := m.stream(t)
	m.streams[at].close()
	m.streams = append(m.streams[:at], m.streams[at+1:]...)
}

// ended judges a stream that was read to its end, and the page that follows.
func (m *machine) ended(t *rapid.T, at int) {
	s := m.streams[at]
	s.close()
	m.streams = append(m.streams[:at], m.streams[at+1:]...)
	if s.got.body == "" {
		return // the service has given up a client that was too slow
	}
	list, err := newReading(s.query, s.got)
	ok(t, err)
	if err := m.world.judge(list); err != nil {
		t.Fatalf("stream%s of %d bytes: %v", s.query, len(s.got.body), err)
	}
	if !list.more {
		return
	}
	m.follows(t, s, list)
}

// follows asks for what comes behind a page, which may be all but what the page should have had.
func (m *machine) follows(t *rapid.T, s *stream, list reading) {
	cursor, fault := isNext(m.world, s.query, s.got.header.Get("Link"))
	if fault != "" {
		t.Fatalf("stream%s: Link %s", s.query, fault)
	}
	next := s.query
	next.cursor, next.limit = cursor, "1"
	r, err := m.list(m.client(t), m.instance(t), m.world, next, "")
	ok(t, err)
	following, err := newReading(next, r)
	ok(t, err)
	there := make(map[string]bool)
	for _, e := range list.Events {
		there[e.ID] = true
	}
	for _, e := range m.world.events {
		if !s.query.covers(e) || !e.life.throughout(s.got.call, r.ret) {
			continue
		}
		before := len(following.Events) == 0 || e.place().compare(m.world.byName[following.Events[0].Name].place()) < 0
		if before != there[e.id] {
			t.Fatalf("event %s is in the page of %d: %v, stands before the next page: %v", e.id, len(list.Events), there[e.id], before)
		}
	}
}
