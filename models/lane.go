package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/semaphore"
)

// lane keeps a row that somebody has locked from delaying those who do not need it. A write that could not lock a row in time is refused
// by its transaction and goes on here; so do all that need the same row and come meanwhile. One of them at a time waits for the lock, with
// a connection of its own. Once it has had it the others share transactions again.
type lane struct {
	shared  *batcher
	alone   *pipelines
	places  *semaphore.Weighted // for those who wait for a lock: a quarter of the pool
	timings timings

	mu   sync.Mutex
	rows map[row]*lockedRow
}

// row is what a write may have to wait for.
type row struct {
	table       string
	event, user ID
	session     Hash
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
			l.timings.countError(err)
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
	if l.places.Acquire(wait, 1) != nil {
		return false, acquireErr(ctx, j.deadline)
	}
	defer l.places.Release(1)
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

func (l *lane) close() { l.shared.close() }

func newLane(p pool, d dialect, o Options, maxWait time.Duration) *lane {
	alone := &pipelines{pool: pgxPool{p.sql}, timedOut: d.timedOut, semaphoreLimiter: p.limiter.(semaphoreLimiter), timeout: o.Timeout, maxWait: maxWait}
	return &lane{
		shared: newBatcher(alone, maxTransactions), alone: alone,
		places: semaphore.NewWeighted(max(1, int64(o.MaxConns/4))), timings: p.timings, rows: make(map[row]*lockedRow),
	}
}
