package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// Lane runs writes, and keeps a row that somebody has locked from delaying writes that do not need it.
//
//	shared transaction ──(no lock in 200 ms)──▶ queued for the row ──▶ waits alone for the lock ──▶ done
//	        ▲                                          │                          │
//	        └──────(somebody else had the row)─────────┘                          └──▶ ErrBusy, a second after the call
//
// A write that could not lock a row in time is refused by its transaction and goes on here. So do all writes
// that need the same row and come meanwhile: in a shared transaction each of them would only cost its
// neighbours another 200 ms. One of them at a time waits for the lock, on a connection of its own. Once it has
// had the row the others share transactions again.
type Lane struct {
	shared *batch.Batcher
	alone  *pipelines
	locked *batch.Turns[row] // rows for whose locks writes have waited in vain; a quarter of the pool waits
	note   func()            // counts a write that met a locked row
}

// row is a row that a write may have to wait for. It is named by what the write knows of it.
type row struct {
	table       string
	event, user [16]byte
	session     [32]byte
}

// lockedError is the ErrLocked of a write that could not lock a row in time. Its transaction was rolled back.
type lockedError struct {
	row row
	error
}

// Unwrap returns the class and the error of the driver.
func (e *lockedError) Unwrap() []error { return []error{dberr.ErrLocked, e.error} }

// lockedRowOf is the row that w could not lock. A join refers to an event and a user, which PostgreSQL looks up
// with statements of its own, and a leave has a trigger look at its event. The context of the error quotes these.
// If it quotes none, somebody else writes the same RSVP.
func lockedRowOf(w *batch.Write, err *pgconn.PgError) row {
	switch {
	case w.Kind == batch.Refreshes:
		return sessionRow(w)
	case strings.Contains(err.Where, `"users"`):
		return userRow(w)
	case strings.Contains(err.Where, `"events"`), strings.Contains(err.Where, "mark_leave"), w.Kind == batch.Edits, w.Kind == batch.Creates: // a key has the same event for somebody else
		return eventRow(w)
	}
	return rsvpRow(w)
}

// rowsOf are the rows that w may have to wait for.
func rowsOf(w *batch.Write) []row {
	switch w.Kind {
	case batch.Creates:
		return []row{eventRow(w), userRow(w)}
	case batch.Joins:
		return []row{eventRow(w), userRow(w), rsvpRow(w)}
	case batch.Edits:
		return []row{eventRow(w)}
	case batch.Leaves:
		return []row{eventRow(w), rsvpRow(w)}
	}
	return []row{sessionRow(w)}
}

func sessionRow(w *batch.Write) row { return row{table: "sessions", session: w.Session} }
func userRow(w *batch.Write) row    { return row{table: "users", user: w.User} }
func eventRow(w *batch.Write) row   { return row{table: "events", event: w.Event} }
func rsvpRow(w *batch.Write) row    { return row{table: "rsvps", event: w.Event, user: w.User} }

// Apply runs the write of j, in a shared transaction or alone.
func (l *Lane) Apply(ctx context.Context, j *batch.Job, giveUp time.Time) error {
	for {
		r, isLocked := l.locked.First(func() []row { return rowsOf(j.Write) })
		if !isLocked {
			err := l.shared.Apply(ctx, j, giveUp)
			var locked *lockedError
			if !errors.As(err, &locked) {
				return err
			}
			r = locked.row
			l.note()
		}
		if err := l.wait(ctx, r, j, giveUp); !errors.Is(err, batch.ErrFree) {
			return err
		}
		if !time.Now().Before(giveUp) { // others lock the row again and again
			return dberr.ErrBusy
		}
	}
}

// wait runs j alone, once it has its turn at a locked row. It returns batch.ErrFree if another write had the row
// meanwhile: then j may share a transaction again.
func (l *Lane) wait(ctx context.Context, r row, j *batch.Job, giveUp time.Time) error {
	leave, err := l.locked.Take(ctx, r, giveUp)
	switch {
	case errors.Is(err, batch.ErrFree):
		return err
	case err != nil:
		return batch.AcquireErr(ctx, j.Deadline)
	}
	hadIt := false
	defer func() { leave(hadIt) }()
	err = l.runAlone(ctx, j, giveUp)
	hadIt = err == nil
	return err
}

// runAlone runs the write of j in a transaction of its own, which waits for locks until giveUp.
func (l *Lane) runAlone(ctx context.Context, j *batch.Job, giveUp time.Time) error {
	if l.alone.Acquire(ctx, giveUp) != nil {
		return batch.AcquireErr(ctx, j.Deadline)
	}
	defer l.alone.Release()
	j.Reset()
	l.alone.transactUntil(j.Deadline, time.Until(giveUp), []*batch.Job{j})
	return j.Err
}

// Locked returns how many rows are known to be locked, and how many writes need them.
func (l *Lane) Locked() (rows, writes int) { return l.locked.Len() }

func (l *Lane) Close() { l.shared.Close() }

// NewLane makes writes share transactions on a pool of connections, which others use, too. A write may take
// timeout, and no more than maxWait of it while the server takes no more connections. note counts a write that met
// a locked row.
func (s *Server) NewLane(pool *sql.DB, all batch.Connections, timeout, maxWait time.Duration, note func()) *Lane {
	p := &pipelines{pool: Pool{pool}, Server: s, Connections: all, timeout: timeout, maxWait: maxWait}
	return &Lane{shared: batch.New(p, batch.MaxTransactions), alone: p, locked: batch.NewTurns[row](max(1, int(all.All/4))), note: note}
}
