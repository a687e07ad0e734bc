package model

import (
	"fmt"

	"pgregory.net/rapid"
)

// openStream begins to read the whole world slowly.
func (m *machine) openStream(t *rapid.T) { m.openSlowly(t, wholeWorld()) }

// openPage begins to read a page slowly, which is a large one more often than not.
func (m *machine) openPage(t *rapid.T) {
	q := m.anyQuery(t)
	if rapid.Bool().Draw(t, "large page") {
		q = wholeWorld()
		q.most = rapid.SampledFrom([]int{900, 250, 1000, 128}).Draw(t, "limit")
		q.limit = fmt.Sprint(q.most)
	}
	m.openSlowly(t, q)
}

// openSlowly opens a stream whose buffers a world of some hundred kilobytes overflows.
func (m *machine) openSlowly(t *rapid.T, q query) {
	if len(m.streams) > 1 {
		t.Skip("two are open")
	}
	s, err := m.open(m.client(t), m.instance(t), m.world, q)
	ok(err)
	m.streams = append(m.streams, s)
	if s.got.status != 200 {
		fail("a stream: %d", s.got.status)
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
	ok(err)
	if ended {
		m.ended(t, at)
	}
}

func (m *machine) readRest(t *rapid.T) { m.finish(t, m.stream(t)) }

func (m *machine) finish(t *rapid.T, at int) {
	s := m.streams[at]
	ok(s.rest())
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
	ok(err)
	ok(m.world.judge(list))
	if !list.more {
		return
	}
	m.follows(t, s, list)
}

// follows asks for what comes behind a page, which may be all but what the page should have had.
func (m *machine) follows(t *rapid.T, s *stream, list reading) {
	cursor, fault := isNext(m.world, s.query, s.got.header.Get("Link"))
	if fault != "" {
		fail("stream%s: Link %s", s.query, fault)
	}
	next := s.query
	next.cursor, next.limit = cursor, "1"
	r, err := m.list(m.client(t), m.instance(t), m.world, next, "")
	ok(err)
	following, err := newReading(next, r)
	ok(err)
	ok(m.world.continues(list, following))
}
