package model

import (
	"fmt"

	"pgregory.net/rapid"
)

// openStream begins to read the whole world slowly.
func (m *machine) openStream(t *rapid.T) { m.openSlowly(t, wholeWorld()) }

// openPage begins to read a page slowly, which is a large one more often than not.
func (m *machine) openPage(t *rapid.T) {
	q := drawing(t).query()
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
	s, err := m.open(m.user(t), m.instance(t), m.world, q)
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
	m.client(t).streamed(m.world, s)
}
