package models

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Span selects events of a world, in the order of the list: by ScheduledAt, then id.
type Span struct {
	WorldID string
	// From and To bound ScheduledAt, To exclusively. Zero means unbounded.
	From, To time.Time
	// After is the place behind which the list begins; zero means at its start.
	After Place
	// Limit is the largest number of events; 0 means all.
	Limit int
}

// Place is where an event stands in its world's list.
type Place struct {
	ScheduledAt time.Time
	ID          string
}

// ListSink takes a list as it is read. Its methods must not wait for a client: a connection is held meanwhile.
type ListSink interface {
	// Event begins an event; what follows belongs to it. The slices are only lent.
	Event(id, name, description []byte, scheduledAt time.Time)
	// Usernames are those of the event's next RSVPs in the order of joining, each ended by a line feed but the last;
	// no username contains one. It is called any number of times for an event, never with nothing.
	Usernames(text []byte)
	// Size is the number of bytes taken so far; Truncate goes back to an earlier one.
	Size() int
	Truncate(size int)
}

// List reads a span in batches, so that neither memory nor the time until the first event grows with the world. Each
// batch is a snapshot of its own: events never change, so only RSVPs can move between batches.
type List struct {
	store *Store
	span  Span
	progress
	digests bool
	page    map[string]bool // ids of the events still to come, once Fix has been called
}

// listRow is a row of a batch. It is valid until the next one.
type listRow struct {
	id, name, description []byte
	scheduledAt           time.Time
	usernames             []byte // joined: all, or one more than largeRSVPs when there are more
	digest                uint64 // of all these, if asked for
}

// large tells whether the event has more than largeRSVPs. Counting takes the database longer.
func (r *listRow) large() bool { return bytes.Count(r.usernames, lineFeed) >= largeRSVPs }

var lineFeed = []byte{'\n'}

// progress is how far a list has been read.
type progress struct {
	rows  int // events to ask for in the next batch
	left  int // events still wanted; below 0 for all
	begun bool
	large bool
	// Inside a large event: RSVPs to ask for in the next batch, and the place of the last one taken.
	names    int
	joinedAt time.Time
	userID   string

	// Last is the place of the last event taken.
	Last Place
	// Digest is what Store.ListDigest would have been at the time, if the list has one and took one batch.
	Digest uint64
	// Done tells that the span has been read.
	Done bool
	// More tells, once Done or fixed, that events follow which Limit left out.
	More bool
}

const (
	// Of most worlds the first batch is the whole list.
	firstRows, mostRows = 128, 1024
	// An event of more RSVPs is large: they are read in batches, too.
	largeRSVPs            = 256
	firstNames, mostNames = 4096, 16384
	// batchBytes is what a batch should come to.
	batchBytes = 512 << 10
)

// resize is how many things to ask for when the last batch brought n of them in so many bytes.
func resize(asked, n, bytes, most int) int {
	return min(2*asked, max(1, n*batchBytes/max(1, bytes)), most)
}

// List begins to read a span.
func (s *Store) List(span Span) *List {
	l := &List{store: s, span: span, progress: progress{rows: firstRows, left: span.Limit, Last: span.After}}
	if span.Limit == 0 {
		l.left = -1
	}
	return l
}

// WithDigest makes l have a Digest, which takes the database longer. Where there are no digests it changes nothing.
func (l *List) WithDigest() { l.digests = l.store.dialect.digest != "" }

// Next reads one batch into sink, with one statement. On behalf of a user who does not exist it returns ErrNoUser;
// with an empty userID it does not look. After an error the sink is as it was before.
func (l *List) Next(ctx context.Context, userID string, sink ListSink) error {
	size := sink.Size()
	read := l.events
	if l.large {
		read = l.chunk
	}
	patience := min(time.Second, l.store.timeout/2)
	if l.begun { // an answer that has begun is worth more waiting than one that could still be refused
		patience = l.store.timeout
	}
	err := l.store.doPatiently(ctx, l.store.read, patience, func(t try) error {
		next := l.progress
		next.begun = true
		sink.Truncate(size) // what an earlier try left
		if err := read(t, userID, sink, &next); err != nil {
			return err
		}
		l.progress = next
		return nil
	})
	if err != nil {
		sink.Truncate(size)
		return fmt.Errorf("list events: %w", err)
	}
	return nil
}

// events reads the next events with their RSVPs, up to and including the first large one, without RSVPs.
func (l *List) events(t try, userID string, sink ListSink, p *progress) error {
	if userID != "" && !validID(userID) {
		return ErrNoUser
	}
	want := p.rows
	if p.left >= 0 {
		want = min(want, p.left+1) // one beyond tells whether more follow
	}
	what := eventsOnly
	if l.digests && !l.begun {
		what = withDigests
	}
	query, args := l.query(what, userID, want)
	before, got, taken := sink.Size(), 0, 0
	lastID := make([]byte, 0, len(noID)) // of this call alone: those who go on from the same list share its memory
	err := t.dialect.rows(t, query, args, func(row *listRow) {
		if p.large {
			return // its RSVPs come first
		}
		got++
		p.Digest ^= row.digest
		switch {
		case p.left == 0:
			p.More = true
			return
		case l.page != nil && !l.page[string(row.id)]:
			return // made since the page was fixed
		}
		sink.Event(row.id, row.name, row.description, row.scheduledAt)
		if p.large = row.large(); !p.large && len(row.usernames) > 0 {
			sink.Usernames(row.usernames)
		}
		p.Last.ScheduledAt, lastID = row.scheduledAt, append(lastID[:0], row.id...)
		p.left--
		taken++
	})
	if err != nil {
		return err
	}
	if taken > 0 {
		p.Last.ID = string(lastID)
	}
	if got == 0 && userID != "" {
		if err := t.exists(userID, ""); err != nil {
			return err
		}
	}
	if p.large {
		p.names, p.joinedAt, p.userID = firstNames, time.Time{}, noID
		p.rows = max(2, 2*taken)
		return nil
	}
	p.Done = got < want || p.More
	p.rows = resize(p.rows, taken, sink.Size()-before, mostRows)
	return nil
}

// query asks for the next rows events, or about them. The user's existence is a condition of the same statement, so no
// events at all may mean that there is no such user.
func (l *List) query(what columns, userID string, rows int) (string, []any) {
	args := make([]any, 0, 8)
	q := listQuery{columns: what, from: !l.span.From.IsZero(), to: !l.span.To.IsZero(), after: l.Last.ID != "", user: userID != ""}
	if q.columns == withDigests || q.columns == digestOnly {
		args = append(args, l.store.seed)
	}
	args = append(args, l.span.WorldID)
	if q.from {
		args = append(args, l.span.From)
	}
	if q.to {
		args = append(args, l.span.To)
	}
	if q.after {
		args = append(args, l.Last.ScheduledAt, l.Last.ID)
	}
	if q.user {
		args = append(args, userID)
	}
	args = append(args, rows)
	if text, known := l.store.lists.Load(q); known {
		return text.(string), args
	}
	text := l.store.dialect.bind(q.text(l.store.dialect))
	l.store.lists.Store(q, text)
	return text, args
}

// noID comes before every id.
const noID = "00000000-0000-0000-0000-000000000000"

// chunk reads the next RSVPs of the large event l.Last.
func (l *List) chunk(t try, _ string, sink ListSink, p *progress) error {
	var names, last sql.NullString
	var at sql.NullTime
	var count int
	err := t.row(`
		SELECT `+t.dialect.joined+`, count(*), max(created_at), `+t.dialect.last+` FROM (
			SELECT created_at, user_id, username FROM rsvps
			WHERE event_id = ? AND (created_at, user_id) > (?, ?)
			ORDER BY created_at, user_id LIMIT ?
		) chunk`,
		p.Last.ID, p.joinedAt, p.userID, p.names).Scan(&names, &count, &at, &last)
	if err != nil {
		return err
	}
	if count > 0 { // else everybody has left since
		sink.Usernames([]byte(names.String))
		p.joinedAt, p.userID = at.Time, last.String
	}
	p.large = count == p.names
	p.names = resize(p.names, count, len(names.String), mostNames)
	return nil
}

// Fix decides which events are still to come, for a list with a limit whose answer begins before it has been read:
// from now on More and the place of the last event are known. It returns this place.
func (l *List) Fix(ctx context.Context) (Place, error) {
	last := l.Last
	err := l.store.do(ctx, l.store.read, func(t try) error {
		query, args := l.query(placesOnly, "", l.left+1)
		rows, err := t.conn.QueryContext(t.ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		l.page, l.More, last = make(map[string]bool), false, l.Last
		for rows.Next() {
			if len(l.page) == l.left {
				l.More = true
				continue
			}
			if err := rows.Scan(&last.ScheduledAt, &last.ID); err != nil {
				return err
			}
			l.page[last.ID] = true
		}
		return rows.Err()
	})
	if err != nil {
		return Place{}, fmt.Errorf("list events: %w", err)
	}
	return last, nil
}

// ListDigest stands for a span, as it is now, whose list is one batch: as long as the list stays the same its digest
// does, in this process, and any other list has another. It takes the database less time than the list, and comes from
// indexes alone. It is false where there are no digests, for a span without events, and on behalf of a user who does not
// exist. A limit counts for nothing: it has not cut off any of such a list.
func (s *Store) ListDigest(ctx context.Context, span Span, userID string) (digest uint64, ok bool, err error) {
	if s.dialect.digest == "" || userID != "" && !validID(userID) {
		return 0, false, nil
	}
	query, args := s.List(span).query(digestOnly, userID, firstRows)
	var signed sql.NullInt64
	err = s.do(ctx, s.read, func(t try) error { return t.dialect.row(t, query, args).Scan(&signed) })
	if err != nil {
		return 0, false, fmt.Errorf("list events: %w", err)
	}
	return uint64(signed.Int64), signed.Valid, nil
}

// Known tells which of these users exist.
func (s *Store) Known(ctx context.Context, userIDs []string) (map[string]bool, error) {
	known := make(map[string]bool, len(userIDs))
	valid := make([]string, 0, len(userIDs))
	for _, id := range userIDs {
		if validID(id) {
			valid = append(valid, id)
		}
	}
	err := s.do(ctx, s.read, func(t try) error {
		clear(known)
		// One text for any number of ids: each would be a statement of its own to prepare.
		rows, err := t.conn.QueryContext(t.ctx, s.dialect.bind("SELECT id FROM users WHERE id "+s.dialect.among), s.dialect.array(valid))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			known[id] = true
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return known, nil
}
