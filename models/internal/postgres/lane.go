package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// Lane keeps a row that somebody has locked from delaying those who do not need it. A write that could not lock a row in time is refused
// by its transaction and goes on here; so do all that need the same row and come meanwhile. One of them at a time waits for the lock, with
// a connection of its own. Once it has had it the others share transactions again.
type Lane struct {
	shared *batch.Batcher
	alone  *pipelines
	places batch.Connections // for those who wait for a lock: a quarter of the pool
	note   func(error)       // counts that a row was locked

	mu   sync.Mutex
	rows map[row]*lockedRow
}

// row is what a write may have to wait for.
type row struct {
	table       string
	event, user [16]byte
	session     [32]byte
}

// lockedRow is a row that nobody has locked since a write has waited for it in vain.
type lockedRow struct {
	turn   chan struct{} // has room for the one who waits for the lock
	passed chan struct{} // closed once somebody has had it
	users  int           // how many are in the lane because of the row, with the lane's mutex held
}

// lockNotAvailable is the SQLSTATE of a statement that has waited for a lock for lock_timeout.
const lockNotAvailable = "55P03"

// lockedError is the errLocked of a write whose transaction was taken back since it could not lock a row in time.
type lockedError struct {
	row row
	error
}

// Unwrap returns the class, and the error of the driver.
func (e *lockedError) Unwrap() []error { return []error{dberr.ErrLocked, e.error} }

// lockedRowOf is the row that w could not lock. What a join refers to PostgreSQL looks up with statements that the error quotes. Else
// somebody else writes the same RSVP.
func lockedRowOf(w *batch.Write, err *pgconn.PgError) row {
	switch {
	case w.Kind == batch.Refreshes:
		return sessionRow(w)
	case w.Kind == batch.Creates, strings.Contains(err.Where, `"users"`):
		return userRow(w)
	case strings.Contains(err.Where, `"events"`):
		return eventRow(w)
	}
	return rsvpRow(w)
}

// rows are what w may have to wait for, at most three.
func rowsOf(w *batch.Write) (all [3]row) {
	switch w.Kind {
	case batch.Creates:
		all[0] = userRow(w)
	case batch.Joins:
		all = [3]row{eventRow(w), userRow(w), rsvpRow(w)}
	case batch.Leaves:
		all[0] = rsvpRow(w)
	case batch.Refreshes:
		all[0] = sessionRow(w)
	}
	return all
}

func sessionRow(w *batch.Write) row { return row{table: "sessions", session: w.Session} }
func userRow(w *batch.Write) row    { return row{table: "users", user: w.User} }
func eventRow(w *batch.Write) row   { return row{table: "events", event: w.Event} }
func rsvpRow(w *batch.Write) row    { return row{table: "rsvps", event: w.Event, user: w.User} }

// needs reports whether w may have to wait for a row.
func needs(w *batch.Write, r row) bool {
	rows := rowsOf(w)
	return slices.Contains(rows[:], r)
}

// Apply does the write of j, alone or with others.
func (l *Lane) Apply(ctx context.Context, j *batch.Job, giveUp time.Time) error {
	for {
		r, isLocked := l.find(j.Write)
		if !isLocked {
			err := l.shared.Apply(ctx, j, giveUp)
			var locked *lockedError
			if !errors.As(err, &locked) {
				return err
			}
			r = locked.row
			l.note(err)
		}
		passed, err := l.wait(ctx, r, j, giveUp)
		if !passed {
			return err
		}
		if !time.Now().Before(giveUp) { // the row is locked again and again
			return dberr.ErrBusy
		}
	}
}

// find returns the row that w needs and that is known to be locked.
func (l *Lane) find(w *batch.Write) (r row, isLocked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rows) > 0 {
		for _, r := range rowsOf(w) {
			if l.rows[r] != nil {
				return r, true
			}
		}
	}
	return row{}, false
}

// enter counts a write that needs a locked row, which leave ends.
func (l *Lane) enter(r row) *lockedRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	locked := l.rows[r]
	if locked == nil {
		locked = &lockedRow{turn: make(chan struct{}, 1), passed: make(chan struct{})}
		l.rows[r] = locked
	}
	locked.users++
	return locked
}

// leave forgets the row once nobody needs it, or somebody has passed.
func (l *Lane) leave(r row, locked *lockedRow, passed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	locked.users--
	if l.rows[r] == locked && (passed || locked.users == 0) {
		delete(l.rows, r)
		close(locked.passed)
	}
}

// wait waits for a locked row until it is j's turn to have it, and then does its write. It returns passed if somebody else
// has had the row meanwhile: then j may share a transaction.
func (l *Lane) wait(ctx context.Context, r row, j *batch.Job, giveUp time.Time) (passed bool, err error) {
	locked := l.enter(r)
	hadIt := false
	defer func() { l.leave(r, locked, hadIt) }()
	wait, cancel := context.WithDeadline(ctx, giveUp)
	defer cancel()
	select {
	case <-locked.passed:
		return true, nil
	case <-wait.Done():
		return false, batch.AcquireErr(ctx, j.Deadline)
	case locked.turn <- struct{}{}:
		defer func() { <-locked.turn }()
	}
	select {
	case <-locked.passed:
		return true, nil
	default:
	}
	if l.places.Acquire(wait, time.Time{}) != nil {
		return false, batch.AcquireErr(ctx, j.Deadline)
	}
	defer l.places.Release()
	err = l.runAlone(ctx, j, giveUp)
	var still *lockedError
	if errors.As(err, &still) { // nothing has happened
		return false, fmt.Errorf("%w: %w", dberr.ErrBusy, err)
	}
	hadIt = err == nil
	return false, err
}

// runAlone does the write of j in a transaction of its own, which waits for a lock until giveUp.
func (l *Lane) runAlone(ctx context.Context, j *batch.Job, giveUp time.Time) error {
	if l.alone.Acquire(ctx, giveUp) != nil {
		return batch.AcquireErr(ctx, j.Deadline)
	}
	defer l.alone.Release()
	j.Reset()
	l.alone.transactUntil(j.Deadline, time.Until(giveUp), []*batch.Job{j})
	return j.Err
}

// Locked returns how many rows are known to be locked, and how many writes wait for them.
func (l *Lane) Locked() (rows, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range l.rows {
		writes += row.users
	}
	return len(l.rows), writes
}

func (l *Lane) Close() { l.shared.Close() }

// NewLane has writes share transactions on a pool of connections, of which others use some, too. A write may take timeout, maxWait of
// it while the server takes no more connections. note counts the error of a write that met a locked row.
func (s *Server) NewLane(pool *sql.DB, all batch.Connections, timeout, maxWait time.Duration, note func(error)) *Lane {
	p := &pipelines{pool: Pool{pool}, Server: s, Connections: all, timeout: timeout, maxWait: maxWait}
	return &Lane{shared: batch.New(p, batch.MaxTransactions), alone: p, places: batch.NewConnections(max(1, int(all.All/4))), note: note, rows: make(map[row]*lockedRow)}
}
