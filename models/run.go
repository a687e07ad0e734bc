package models

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
)

// maxAttempts is how often a call is tried when the database says that the transaction must be repeated, and a read when its connection
// is lost.
const maxAttempts = 4

// Deadline is the key of a context's value, a time.Time, that bounds all calls of a Store with that context
// together; a zero time bounds nothing. It is a value and not a deadline of the context, because each of those
// costs a timer.
type Deadline struct{}

// WithDeadline returns a context in which all calls of the store together have its timeout, from now on.
func (s *Store) WithDeadline(ctx context.Context) context.Context {
	return context.WithValue(ctx, Deadline{}, time.Now().Add(s.Timeout()))
}

// write runs fn, which is one statement or one whole transaction, on a connection that may write. The store's
// timeout and the deadlines of ctx bound it, including the time in the queue for a connection.
//
// It repeats fn only if the database asks for that (SQLSTATE 40001 and 40P01), because then nothing of fn has
// happened. It returns ErrBusy if that was in vain. If the caller goes away, fn goes on once it has begun:
// cancelling a statement would cost the pool its connection.
func (s *Store) write(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.run(ctx, s.writer, s.options.Timeout, fn)
}

// transaction is write for several statements, which all happen or none.
func (s *Store) transaction(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.write(ctx, inTransaction(fn))
}

func inTransaction(fn func(tx *gorm.DB) error) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error {
		return tx.Transaction(func(tx *gorm.DB) error { return dberr.InTransaction(fn(tx)) })
	}
}

// locking is transaction for a call that needs rows which somebody may have locked: those of a user with their
// sessions, or of an event. id stands for whose they are, and never for what a client has made up. A call that does not
// get a lock at once goes to the lane. There it waits until half of the store's timeout is over, and not until its own
// deadline, which would cost the connection; then it returns ErrLocked, or ErrBusy for want of a place.
//
// A file has one writer, and no rows that are locked.
func (s *Store) locking(ctx context.Context, id string, fn func(tx *gorm.DB) error) error {
	if s.lane == nil {
		return s.transaction(ctx, fn)
	}
	begun := time.Now()
	ctx = context.WithValue(ctx, Deadline{}, s.deadline(ctx, begun.Add(s.options.Timeout)))
	ids := []string{id}
	on := func(in batch.Limiter, patience time.Duration) error {
		p := s.writer
		p.limiter = in
		err := s.run(ctx, p, s.options.Timeout, inTransaction(func(tx *gorm.DB) error {
			patience := patience // of this try
			if deadline, ok := tx.Statement.Context.Deadline(); ok {
				patience = min(patience, time.Until(deadline)*9/10)
			}
			setting := strconv.FormatInt(max(1, patience.Milliseconds()), 10) // 0 would mean no limit
			if err := tx.Exec("SELECT set_config('lock_timeout', ?, true)", setting).Error; err != nil {
				return err
			}
			return fn(tx)
		}))
		if errors.Is(err, dberr.ErrLocked) {
			s.lane.Refused(ids)
		}
		return err
	}
	half := s.options.Timeout / 2
	shared := func() error { return on(s.writer.limiter, min(postgres.LockTimeout, half)) }
	return s.lane.Run(ids, begun.Add(half), shared, on)
}

// read is write on a connection that may be unable to write, for an fn that changes nothing. It also repeats fn when the connection
// is lost, with which all who share an fn would fail.
func (s *Store) read(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.run(ctx, s.reader, s.options.Timeout, fn)
}

// run is write on a connection of p, with another timeout.
func (s *Store) run(ctx context.Context, p pool, timeout time.Duration, fn func(tx *gorm.DB) error) error {
	return s.call(ctx, p, timeout, func(deadline, giveUp time.Time) (started time.Time, err error) {
		p.timings.waiting.Add(1)
		err = p.limiter.Do(ctx, deadline, giveUp, func() error {
			p.timings.waiting.Add(-1)
			if started = time.Now(); !started.Before(deadline) {
				return ErrTimeout
			}
			work, cancel := context.WithoutCancel(ctx), context.CancelFunc(func() {})
			if p.enforceDeadline {
				work, cancel = context.WithDeadline(work, deadline)
			}
			defer cancel()
			return postgres.WhileFull(work, giveUp, func() error { return dberr.Classify(fn(p.gorm.WithContext(work))) })
		})
		if started.IsZero() { // there was no connection
			p.timings.waiting.Add(-1)
		}
		return started, err
	})
}

// statement has GORM build a statement without running it.
func (s *Store) statement(sql string, vars ...any) batch.Statement {
	built := s.writer.gorm.Raw(sql, vars...).Statement
	return batch.Statement{SQL: built.SQL.String(), Args: built.Vars}
}

// apply is write for the statements of w, perhaps in one transaction with the writes of other callers, and reports
// whether w changed a row. It also repeats w if a row that w refers to was renamed or removed meanwhile (23503). After
// an error other than ErrBusy nobody knows whether w happened.
func (s *Store) apply(ctx context.Context, w batch.Write) (changed bool, err error) {
	err = s.call(ctx, s.writer, s.options.Timeout, func(deadline, giveUp time.Time) (started time.Time, err error) {
		j := &batch.Job{Write: &w, Deadline: deadline, Waiting: s.writer.timings.waiting}
		err = s.writes.Apply(ctx, j, giveUp)
		changed = err == nil && j.Changed
		return j.Started(), err
	})
	return changed, err
}

// change is apply for a write that changes a list: it tells those who watch lists. After an error the write may
// still have happened, so it tells them then, too; a needless call costs one question to the database.
func (s *Store) change(ctx context.Context, w batch.Write) (changed bool, err error) {
	changed, err = s.apply(ctx, w)
	if changed || err != nil {
		s.tell()
	}
	return changed, err
}

// settle is change for a write whose effect may be missing for a reason. If w changed no row, reason looks up
// why: it returns an error for the client, or again if w should have had an effect. In that case something
// appeared between write and look-up, and settle tries once more.
//
// If the second try has no effect either, although nothing was missing before it or after it, then somebody
// else has just done the same, as a second tab does that joins the same event.
func (s *Store) settle(ctx context.Context, w batch.Write, reason func(tx *gorm.DB) (again bool, err error)) (changed bool, err error) {
	for tries, again := 0, true; again && tries < 2; tries++ {
		if changed, err = s.change(ctx, w); changed || err != nil {
			return changed, err
		}
		err = s.read(ctx, func(tx *gorm.DB) error {
			again, err = reason(tx)
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// call runs try until the database does not ask for another one, and counts the call. started is zero for a try that got no connection.
func (s *Store) call(ctx context.Context, p pool, timeout time.Duration, try func(deadline, giveUp time.Time) (started time.Time, err error)) error {
	begun := time.Now()
	deadline := s.deadline(ctx, begun.Add(timeout))
	var first time.Time // when it got its first connection
	for n := 1; ; n++ {
		started, err := try(deadline, begun.Add(s.options.MaxWait))
		if first.IsZero() {
			first = started
		}
		s.database.note(err) // after which the next try gets a connection that responds
		refused := errors.Is(err, dberr.ErrSerialize)
		if (refused || p.readsOnly && dberr.IsLost(err)) && n < maxAttempts && time.Now().Before(deadline) {
			p.timings.countError(dberr.ErrSerialize)
			time.Sleep(repeatDelay(n))
			continue
		}
		if refused { // the last try was taken back, too: nothing has happened
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		p.timings.observe(begun, first, err, UsageOf(ctx))
		return err
	}
}

// deadline is when a call must have ended: at a time, or at the deadlines of ctx if they come first.
func (s *Store) deadline(ctx context.Context, deadline time.Time) time.Time {
	if d, ok := ctx.Value(Deadline{}).(time.Time); ok && !d.IsZero() && d.Before(deadline) {
		deadline = d
	}
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	return deadline
}

// repeatDelay is how long to wait after n tries: 5, 20 and 45 ms, so that transactions that collided come at
// different times.
func repeatDelay(n int) time.Duration { return time.Duration(n*n) * 5 * time.Millisecond }

// scan runs a query that Raw has built, and reads the columns of its only row into dest. It returns
// sql.ErrNoRows without a row.
func scan(query *gorm.DB, dest ...any) error {
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	return cmp.Or(rows.Close(), rows.Err())
}

// timestamp is the time of writing, as a parameter of a statement.
func (s *Store) timestamp() any { return s.after(0) }

// after is the time of writing plus d, as a parameter of a statement. A PostgreSQL server tells the time
// itself, unless Options.Now is set. So one clock orders the RSVPs of all instances and says which sessions
// have expired, however wrong the clocks of the instances are.
func (s *Store) after(d time.Duration) any {
	switch {
	case s.serverClock && d == 0:
		return serverNow
	case s.serverClock:
		return gorm.Expr("clock_timestamp() + CAST(? AS interval)", d)
	}
	then := s.options.Now().UTC().Truncate(time.Microsecond).Add(d) // PostgreSQL keeps microseconds
	if s.file != nil {
		return then
	}
	return gorm.Expr("CAST(? AS timestamptz)", then)
}

var serverNow any = gorm.Expr("clock_timestamp()")

// eachBatch calls each with batches of rows until one has fewer than size, each returns an error, or ctx ends.
// read returns the batch that comes after a row, and the first one for the zero row.
func eachBatch[T any](ctx context.Context, size int, each func([]T) error, read func(after T) ([]T, error)) error {
	for after := *new(T); ; {
		batch, err := read(after)
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := each(batch); err != nil || len(batch) < size {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		after = batch[len(batch)-1]
	}
}

// oneByOne calls each with the rows of a batch.
func oneByOne[T any](each func(T) error) func([]T) error {
	return func(batch []T) error {
		for _, row := range batch {
			if err := each(row); err != nil {
				return err
			}
		}
		return nil
	}
}
