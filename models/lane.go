package models

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
)

// lane keeps a row that somebody has locked from delaying those who do not need it. A write that could not lock a row in time is refused
// by its transaction and goes on here; so do all that need the same row and come meanwhile. One of them at a time waits for the lock, with
// a connection of its own. Once it has had it the others share transactions again.
type lane struct {
	shared *batcher
	alone  *pipelines
	places connections // for those who wait for a lock: a quarter of the pool
	note   func(error) // counts that a row was locked

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
func (e *lockedError) Unwrap() []error { return []error{errLocked, e.error} }

// lockedRow is the row that w could not lock. What a join refers to PostgreSQL looks up with statements that the error quotes. Else
// somebody else writes the same RSVP.
func (w *write) lockedRow(err *pgconn.PgError) row {
	switch {
	case w.kind == refreshes:
		return w.sessionRow()
	case w.kind == creates, strings.Contains(err.Where, `"users"`):
		return w.userRow()
	case strings.Contains(err.Where, `"events"`):
		return w.eventRow()
	}
	return w.rsvpRow()
}

// rows are what w may have to wait for, at most three.
func (w *write) rows() (all [3]row) {
	switch w.kind {
	case creates:
		all[0] = w.userRow()
	case joins:
		all = [3]row{w.eventRow(), w.userRow(), w.rsvpRow()}
	case leaves:
		all[0] = w.rsvpRow()
	case refreshes:
		all[0] = w.sessionRow()
	}
	return all
}

func (w *write) sessionRow() row { return row{table: "sessions", session: w.session} }
func (w *write) userRow() row    { return row{table: "users", user: w.user} }
func (w *write) eventRow() row   { return row{table: "events", event: w.event} }
func (w *write) rsvpRow() row    { return row{table: "rsvps", event: w.event, user: w.user} }

// needs reports whether w may have to wait for a row.
func (w *write) needs(r row) bool {
	rows := w.rows()
	return slices.Contains(rows[:], r)
}

// apply does the write of j, alone or with others.
func (l *lane) apply(ctx context.Context, j *job, giveUp time.Time) error {
	for {
		r, isLocked := l.find(j.write)
		if !isLocked {
			err := l.shared.apply(ctx, j, giveUp)
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
			return ErrBusy
		}
	}
}

// find returns the row that w needs and that is known to be locked.
func (l *lane) find(w *write) (r row, isLocked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rows) > 0 {
		for _, r := range w.rows() {
			if l.rows[r] != nil {
				return r, true
			}
		}
	}
	return row{}, false
}

// enter counts a write that needs a locked row, which leave ends.
func (l *lane) enter(r row) *lockedRow {
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
func (l *lane) leave(r row, locked *lockedRow, passed bool) {
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
func (l *lane) wait(ctx context.Context, r row, j *job, giveUp time.Time) (passed bool, err error) {
	locked := l.enter(r)
	hadIt := false
	defer func() { l.leave(r, locked, hadIt) }()
	wait, cancel := context.WithDeadline(ctx, giveUp)
	defer cancel()
	select {
	case <-locked.passed:
		return true, nil
	case <-wait.Done():
		return false, acquireErr(ctx, j.deadline)
	case locked.turn <- struct{}{}:
		defer func() { <-locked.turn }()
	}
	select {
	case <-locked.passed:
		return true, nil
	default:
	}
	if l.places.acquire(wait, time.Time{}) != nil {
		return false, acquireErr(ctx, j.deadline)
	}
	defer l.places.release()
	err = l.runAlone(ctx, j, giveUp)
	var still *lockedError
	if errors.As(err, &still) { // nothing has happened
		return false, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	hadIt = err == nil
	return false, err
}

// runAlone does the write of j in a transaction of its own, which waits for a lock until giveUp.
func (l *lane) runAlone(ctx context.Context, j *job, giveUp time.Time) error {
	if l.alone.acquire(ctx, giveUp) != nil {
		return acquireErr(ctx, j.deadline)
	}
	defer l.alone.release()
	j.reset()
	l.alone.transactUntil(j.deadline, time.Until(giveUp), []*job{j})
	return j.err
}

// locked returns how many rows are known to be locked, and how many writes wait for them.
func (l *lane) locked() (rows, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range l.rows {
		writes += row.users
	}
	return len(l.rows), writes
}

func (l *lane) close() { l.shared.close() }

// newLane has writes share transactions on a pool of connections, of which others use some, too. A write may take timeout, maxWait of
// it while the server takes no more connections. note counts the error of a write that met a locked row.
func (s *server) newLane(pool *sql.DB, all connections, timeout, maxWait time.Duration, note func(error)) *lane {
	p := &pipelines{pool: pgxPool{pool}, server: s, connections: all, timeout: timeout, maxWait: maxWait}
	return &lane{shared: newBatcher(p, maxTransactions), alone: p, places: newConnections(max(1, int(all.all/4))), note: note, rows: make(map[row]*lockedRow)}
}
