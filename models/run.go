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
	return s.run(ctx, s.writer, s.options.MaxWait, fn)
}

// read is write on a connection that may be unable to write, for an fn that changes nothing. It also repeats fn when the connection
// is lost, with which all who share an fn would fail.
func (s *Store) read(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.run(ctx, s.reader, s.options.MaxWait, fn)
}

// run is write on a connection of p. The call is queued for the connection for no longer than maxWait.
func (s *Store) run(ctx context.Context, p pool, maxWait time.Duration, fn func(tx *gorm.DB) error) error {
	begun := time.Now()
	deadline := s.deadline(ctx, begun)
	var started time.Time // zero until there is a connection
	p.timings.waiting.Add(1)
	err := p.limiter.Do(ctx, deadline, maxWait, func() error {
		p.timings.waiting.Add(-1)
		if started = time.Now(); !started.Before(deadline) {
			return ErrTimeout
		}
		work, cancel := context.WithoutCancel(ctx), context.CancelFunc(func() {})
		if p.enforceDeadline {
			work, cancel = context.WithDeadline(work, deadline)
		}
		defer cancel()
		return postgres.WhileFull(work, begun.Add(maxWait), func() error { return s.attempt(work, p, fn) })
	})
	if started.IsZero() {
		p.timings.waiting.Add(-1)
	}
	p.timings.observe(begun, started, err, UsageOf(ctx))
	s.database.note(err)
	if errors.Is(err, dberr.ErrSerialize) { // its last try was taken back, too: nothing has happened
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// deadline is when a call that began at begun must have ended: after the store's timeout, or at the deadlines
// of ctx if they come first.
func (s *Store) deadline(ctx context.Context, begun time.Time) time.Time {
	deadline := begun.Add(s.options.Timeout)
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

// attempt runs fn, and repeats it as write and read say.
func (s *Store) attempt(ctx context.Context, p pool, fn func(tx *gorm.DB) error) error {
	for n := 1; ; n++ {
		err := dberr.Classify(fn(p.gorm.WithContext(ctx)))
		lost := p.readsOnly && dberr.IsLost(err)
		if n == maxAttempts || !lost && !errors.Is(err, dberr.ErrSerialize) {
			return err
		}
		s.database.note(err) // after which the next try gets a connection that responds
		p.timings.countError(dberr.ErrSerialize)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrTimeout, err)
		case <-time.After(repeatDelay(n)):
		}
	}
}

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

// transaction is write for several statements, which all happen or none.
func (s *Store) transaction(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.write(ctx, func(tx *gorm.DB) error {
		return tx.Transaction(func(tx *gorm.DB) error { return dberr.InTransaction(fn(tx)) })
	})
}

// locking is transaction for a call that needs rows which somebody may have locked: those of a user with their
// sessions, or of an event. key stands for whose they are, and never for what a client has made up. A call waits
// for a lock for half of the store's timeout at most, and not until its own deadline, which would cost the
// connection; then it returns ErrBusy. However many calls wait for rows of one user, they hold one connection, or
// two if somebody signs in by name; and those that wait for any rows hold a quarter of the pool.
//
// A file has one writer, and no rows that are locked.
func (s *Store) locking(ctx context.Context, key string, fn func(tx *gorm.DB) error) error {
	if s.turns == nil {
		return s.transaction(ctx, fn)
	}
	begun := time.Now()
	deadline, giveUp := s.deadline(ctx, begun), begun.Add(s.options.MaxWait)
	if deadline.Before(giveUp) {
		giveUp = deadline
	}
	s.writer.timings.waiting.Add(1)
	leave, err := s.turns.Take(ctx, key, giveUp)
	s.writer.timings.waiting.Add(-1)
	if err != nil {
		err = batch.AcquireErr(ctx, deadline)
		s.writer.timings.observe(begun, time.Time{}, err, UsageOf(ctx))
		return err
	}
	defer leave(false)
	return s.transaction(context.WithValue(ctx, Deadline{}, deadline), func(tx *gorm.DB) error {
		patience := s.options.Timeout / 2
		if deadline, ok := tx.Statement.Context.Deadline(); ok {
			patience = min(patience, time.Until(deadline)*9/10)
		}
		setting := strconv.FormatInt(max(1, patience.Milliseconds()), 10) // 0 would mean no limit
		if err := tx.Exec("SELECT set_config('lock_timeout', ?, true)", setting).Error; err != nil {
			return err
		}
		return fn(tx)
	})
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

// statement has GORM build a statement without running it.
func (s *Store) statement(sql string, vars ...any) batch.Statement {
	built := s.writer.gorm.Raw(sql, vars...).Statement
	return batch.Statement{SQL: built.SQL.String(), Args: built.Vars}
}

// apply runs the statements of w, perhaps in one transaction with the writes of other callers, and reports
// whether w changed a row. The store's timeout and the deadlines of ctx bound it. If the caller goes away, w
// goes on once it has begun.
//
// It repeats w only if the database asks for that (SQLSTATE 40001 and 40P01), or if a row that w refers to was
// renamed or removed meanwhile (23503). It returns ErrBusy if that was in vain, and then nothing has happened.
// After any other error nobody knows whether w happened.
func (s *Store) apply(ctx context.Context, w batch.Write) (changed bool, err error) {
	p := s.writer
	begun := time.Now()
	deadline := s.deadline(ctx, begun)
	var started time.Time
	for n := 1; ; n++ {
		j := &batch.Job{Write: &w, Deadline: deadline, Waiting: p.timings.waiting}
		err = s.writes.Apply(ctx, j, begun.Add(s.options.MaxWait))
		if started.IsZero() {
			started = j.Started()
		}
		if !errors.Is(err, dberr.ErrSerialize) {
			changed = err == nil && j.Changed
			break
		}
		if n == maxAttempts || !time.Now().Before(deadline) { // the last try was taken back, too: nothing has happened
			err = fmt.Errorf("%w: %w", ErrBusy, err)
			break
		}
		p.timings.countError(err)
		time.Sleep(repeatDelay(n))
	}
	p.timings.observe(begun, started, err, UsageOf(ctx))
	s.database.note(err)
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
