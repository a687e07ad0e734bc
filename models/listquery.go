package models

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"

	"gorm.io/gorm"
)

// projection is which columns a query selects.
type projection int

const (
	eventsOnly projection = iota
	withFingerprints
	positionsOnly
	fingerprintOnly
	projections
)

// listQuery is what the queries of lists differ in: columns and conditions.
type listQuery struct {
	projection
	from, to, after, until bool
	userActive             bool // the user of the caller is
	sessionActive          bool // the caller's session is
}

// listQueries has the text of each listQuery that was ever used, by its number.
type listQueries [int(projections) << 6]atomic.Pointer[string]

// number tells a listQuery from all others.
func (q listQuery) number() int {
	n := int(q.projection)
	for _, yes := range [...]bool{q.from, q.to, q.after, q.until, q.userActive, q.sessionActive} {
		if n <<= 1; yes {
			n++
		}
	}
	return n
}

// text returns the text of a query, which it makes once.
func (all *listQueries) text(q listQuery, d dialect) string {
	known := &all[q.number()]
	if text := known.Load(); text != nil {
		return *text
	}
	text := q.sql(d)
	if q.projection != fingerprintOnly { // that one is run by GORM
		text = d.parameters(text)
	}
	known.Store(&text)
	return text
}

// sql leaves the order of a batch with fingerprints to the subquery, whose LIMIT keeps it a step of its own.
func (q listQuery) sql(d dialect) string {
	var b strings.Builder
	add := func(yes bool, part string) {
		if yes {
			b.WriteString(part)
		}
	}
	const events = "SELECT e.id, e.scheduled_at, e.name, e.description, "
	add(q.projection == eventsOnly, events+d.usernames)
	add(q.projection == withFingerprints, "SELECT id, scheduled_at, name, description, usernames, "+d.fingerprint+" FROM ("+
		events+d.usernames+" AS usernames, e.digest")
	add(q.projection == positionsOnly, "SELECT e.id, e.scheduled_at")
	add(q.projection == fingerprintOnly, "SELECT bit_xor("+d.fingerprint+") FROM (SELECT e.digest, "+d.usernames+" AS usernames")
	add(true, " FROM events e WHERE e.world_id = ?")
	add(q.from, " AND e.scheduled_at >= ?")
	add(q.to, " AND e.scheduled_at < ?")
	add(q.after, " AND (e.scheduled_at, e.id) > (?, ?)")
	add(q.until, " AND (e.scheduled_at, e.id) <= (?, ?)")
	add(q.userActive, " AND "+userIsActive)
	add(q.sessionActive, " AND "+sessionIsActive)
	add(true, " ORDER BY e.scheduled_at, e.id LIMIT ?")
	add(q.projection == withFingerprints || q.projection == fingerprintOnly, ") batch")
	return b.String()
}

// query asks for the next rows events, or about them. That the caller is active is a condition of the same statement, so no
// events at all may mean that they are not.
func (l *EventReader) query(selected projection, caller Caller, rows int) (text string, args []any) {
	args = make([]any, 0, 12)
	q := listQuery{projection: selected, from: !l.options.From.IsZero(), to: !l.options.To.IsZero(),
		after: !l.Last.ScheduledAt.IsZero(), until: !l.until.ScheduledAt.IsZero()}
	if q.projection == withFingerprints || q.projection == fingerprintOnly {
		args = append(args, l.store.seed)
	}
	args = append(args, l.options.WorldID)
	if q.from {
		args = append(args, l.options.From)
	}
	if q.to {
		args = append(args, l.options.To)
	}
	if q.after {
		args = append(args, l.Last.ScheduledAt, l.Last.ID)
	}
	if q.until {
		args = append(args, l.until.ScheduledAt, l.until.ID)
	}
	switch {
	case caller == Caller{}:
	case caller.SessionID.IsZero():
		q.userActive = true
		args = append(args, caller.UserID)
	default:
		q.sessionActive = true
		args = append(args, caller.SessionID, caller.UserID)
	}
	return l.store.lists.text(q, l.store.dialect), append(args, rows)
}

// ListFingerprint returns a hash of the selected list, computed from indexes alone, which takes the database less time
// than the list. An unchanged list has the same fingerprint, and any other list has another; values are comparable
// within this process only. It is meant for lists that fit in one batch, and ignores Limit: it has not cut off any of
// such a list. ok is false for a database without fingerprints, for a list without events, and for a caller who is
// not active.
func (s *Store) ListFingerprint(ctx context.Context, options ListOptions, caller Caller) (fingerprint uint64, ok bool, err error) {
	if s.dialect.fingerprint == "" {
		return 0, false, nil
	}
	var signed sql.NullInt64
	err = s.read(ctx, func(tx *gorm.DB) error {
		text, args := s.List(options).query(fingerprintOnly, caller, firstRows)
		return scan(raw(tx, text, args...), &signed)
	})
	if err != nil {
		return 0, false, fmt.Errorf("make fingerprint of events: %w", err)
	}
	return uint64(signed.Int64), signed.Valid, nil
}
