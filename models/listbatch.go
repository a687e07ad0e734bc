package models

import (
	"bytes"
	"errors"
	"slices"
	"time"
)

const (
	// Of most worlds the first batch is the whole list.
	firstRows = 128
	// A query for events asks for one username more of each.
	largeRSVPs = 256
	// The first batch of a large event has no more RSVPs.
	firstRSVPs = 4096
)

// batchLimits are how much is read at once.
type batchLimits struct {
	maxRows, maxRSVPs int
	large             int // an event of more RSVPs is large: they are read in batches, too; at most largeRSVPs
	// A batch of events has no more bytes, unless it is one event: at most 130 KB, and 30 KB in a small batch.
	maxBytes int
	// A batch of RSVPs has no more bytes of usernames, unless it is one. Their JSON has 26 more for each.
	maxNames int
}

var (
	usualBatches = batchLimits{maxRows: 512, maxRSVPs: 12288, large: largeRSVPs, maxBytes: 384 << 10, maxNames: 160 << 10}
	smallBatches = batchLimits{maxRows: 32, maxRSVPs: 256, large: 16, maxBytes: 8 << 10, maxNames: 4 << 10}
)

// resize returns how many rows to ask for, at most most, when the last batch brought n of them in so many bytes and the next
// shall have about want.
func resize(asked, n, bytes, want, most int) int {
	return min(2*asked, max(1, n*want/max(1, bytes)), most)
}

// resizeRSVPs is resize for RSVPs. An eighth is left for names that are longer than the last ones.
func (l batchLimits) resizeRSVPs(asked, n, bytes int) int {
	return resize(asked, n, bytes, l.maxNames*7/8, l.maxRSVPs)
}

// listRow is a row of a batch: an event, or the next RSVPs of one. It is valid until the next row.
type listRow struct {
	id ID
	at time.Time // scheduled
	// The texts of an event are its name, its description, and its first usernames, at most one more than largeRSVPs. Those of RSVPs
	// are their usernames, the position of the last one as rsvpState has it, and when the event's last user has joined.
	texts [4][]byte
}

var lineFeed = []byte{'\n'}

// countNames returns how many usernames there are, with line feeds between them. Counting takes the database longer.
func countNames(usernames []byte) int {
	if len(usernames) == 0 {
		return 0
	}
	return 1 + bytes.Count(usernames, lineFeed)
}

// rowsFunc runs a query of a list's batch and calls each with every row, until it wants no more.
type rowsFunc func(query string, args []any, each func(*listRow) (more bool)) error

// nextBatch reads one batch and returns how many rows came.
func (l *EventReader) nextBatch(rows rowsFunc, caller Caller, sink EventSink) (got int, err error) {
	next := l.readState
	next.begun = true
	if l.rsvps != nil {
		got, err = l.nextRSVPs(rows, sink, &next)
	} else {
		got, err = l.nextEvents(rows, caller, sink, &next)
	}
	if err == nil && !next.isAfter(l.readState) {
		err = errStuck
	}
	if err != nil {
		return 0, err
	}
	l.readState = next
	return got, nil
}

// nextEvents reads the next events with their RSVPs, up to and including the first large one, without RSVPs.
func (l *EventReader) nextEvents(rows rowsFunc, caller Caller, sink EventSink, s *readState) (got int, err error) {
	want := min(s.rows, l.maxRows)
	if s.remaining >= 0 {
		want = min(want, s.remaining+1) // the one beyond shows that more follow
	}
	selected := eventsOnly
	if !l.begun {
		selected = withMoment
	}
	query, args := l.query(selected, caller, want)
	start, ended := sink.Size(), false // ended means before the query did
	beyond := false                    // the page is full, and there is one event more
	err = rows(query, args, func(row *listRow) (more bool) {
		if selected == withMoment {
			s.Moment, selected = NewMoment(string(row.texts[0])), eventsOnly
			return true
		}
		name, description, usernames := row.texts[0], row.texts[1], row.texts[2]
		size, n := len(name)+len(description), countNames(usernames)
		large := n > l.large
		if !large {
			size += len(usernames)
		}
		if ended = got > 0 && s.remaining != 0 && sink.Size()-start+size > l.maxBytes; ended {
			return false // it begins the next batch
		}
		got++
		if beyond = s.remaining == 0; beyond {
			return false
		}
		s.Last = Position{row.at, row.id}
		if s.pinned != nil {
			i := slices.Index(s.pinned, row.id)
			if i < 0 {
				return true // it was created after the page had been pinned
			}
			s.pinned = s.pinned[i+1:]
		}
		s.remaining--
		sink.Event(row.id, name, description, row.at)
		if ended = large; large {
			s.rsvps = &rsvpState{rows: l.resizeRSVPs(firstRSVPs/2, n, len(usernames)), joinedAt: beforeAll, userNumber: "0", until: afterAll}
		} else if len(usernames) > 0 {
			sink.Usernames(usernames)
		}
		return !ended
	})
	if err != nil {
		return 0, err
	}
	s.More = s.More || beyond
	s.Done = beyond || got < want && !ended
	s.rows = resize(s.rows, got, sink.Size()-start, l.maxBytes, l.maxRows)
	if s.rsvps != nil {
		s.rows = max(2, 2*got)
	}
	return got, nil
}

// errRemoved is returned for an event that was removed while its RSVPs were read: what has been read is no event of any moment.
var errRemoved = errors.New("an event was removed while it was read")

// nextRSVPs reads the next RSVPs of the large event at l.Last. A batch whose usernames are too long for it brings none, and the
// next one asks for less.
func (l *EventReader) nextRSVPs(rows rowsFunc, sink EventSink, s *readState) (got int, err error) {
	r, there, done := *s.rsvps, false, false // the reading of others, who share the beginning, has the same
	want := min(r.rows, l.maxRSVPs)
	query, args := l.rsvpQuery(want)
	err = rows(query, args, func(row *listRow) (more bool) {
		there = true
		usernames := row.texts[0]
		n := countNames(usernames)
		r.rows = l.resizeRSVPs(want, n, len(usernames))
		if n > 1 && len(usernames) > l.maxNames {
			return false
		}
		if got, done = n, n < want; got > 0 {
			sink.Usernames(usernames)
			r.joinedAt, r.userNumber = string(row.texts[1]), string(row.texts[2])
			if r.until == afterAll {
				r.until = string(row.texts[3])
			}
		}
		return false
	})
	if err == nil && !there {
		err = errRemoved
	}
	if s.rsvps = &r; done {
		s.rsvps = nil
	}
	return got, err
}
