package models

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
)

// maxAttempts is how often a call is tried when the database says that the transaction must be repeated.
const maxAttempts = 4

// Deadline is the key of a context's value, a time.Time, that bounds all calls of a Store with that context together;
// zero bounds nothing. It is a value, and no deadline of the context, because each of those costs a timer.
type Deadline struct{}

// write runs fn, one statement or one whole transaction, on a connection that may write, within the store's timeout,
// waiting for the connection included, and before the deadlines of ctx. It repeats fn when the database asks for it
// (SQLSTATE 40001 and 40P01) and for no other reason, and returns ErrBusy if that was in vain. Once fn has begun it is not
// cut short by the caller going away: cancelling would cost the pool a connection.
func (s *Store) write(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.run(ctx, s.writer, s.maxWait, fn)
}

// read is write on a connection that need not be able to write.
func (s *Store) read(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.run(ctx, s.reader, s.maxWait, fn)
}

// run is write on a connection of p, for which it waits up to maxWait.
func (s *Store) run(ctx context.Context, p pool, maxWait time.Duration, fn func(tx *gorm.DB) error) error {
	begun := time.Now()
	deadline := s.deadline(ctx, begun)
	var started time.Time // zero if it never was
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
		err := s.attempt(work, p, fn)
		if errors.Is(err, dberr.ErrFull) {
			err = s.attemptWhileFull(work, p, begun.Add(maxWait), fn)
		}
		return err
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

// deadline is until when a call that has begun may take: the store's timeout, or the deadlines of ctx, if they come first.
func (s *Store) deadline(ctx context.Context, begun time.Time) time.Time {
	deadline := begun.Add(s.timeout)
	if d, ok := ctx.Value(Deadline{}).(time.Time); ok && !d.IsZero() && d.Before(deadline) {
		deadline = d
	}
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	return deadline
}

// repeatDelay is how long to wait before the next try after n of them.
func repeatDelay(n int) time.Duration { return time.Duration(n*n) * 5 * time.Millisecond }

// attempt runs fn, and repeats it while the database asks for that, until ctx ends.
func (s *Store) attempt(ctx context.Context, p pool, fn func(tx *gorm.DB) error) error {
	for n := 1; ; n++ {
		err := dberr.Classify(fn(p.gorm.WithContext(ctx)))
		if n == maxAttempts || !errors.Is(err, dberr.ErrSerialize) {
			return err
		}
		p.timings.countError(err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrTimeout, err)
		case <-time.After(repeatDelay(n)):
		}
	}
}

// attemptWhileFull is attempt again and again until giveUp while the server takes no more connections: one of the pool
// may come free, or another client may end.
func (s *Store) attemptWhileFull(ctx context.Context, p pool, giveUp time.Time, fn func(tx *gorm.DB) error) error {
	wait, cancel := context.WithDeadline(ctx, giveUp)
	defer cancel()
	return postgres.WhileFull(wait, func() error { return s.attempt(ctx, p, fn) })
}

// scan runs a query that Raw has built and reads the columns of its only row into dest. The error is sql.ErrNoRows if
// there is none.
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

// transaction is write for several statements that are done all or not at all.
func (s *Store) transaction(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.write(ctx, func(tx *gorm.DB) error { return tx.Transaction(fn) })
}

// timestamp is the time of writing, as a parameter of a statement.
func (s *Store) timestamp() any { return s.after(0) }

// after is a time so long after that of writing, as a parameter of a statement. A server that has a clock uses that, unless
// Options.Now is set: one clock orders the RSVPs of all instances, and says which sessions have expired.
func (s *Store) after(d time.Duration) any {
	switch {
	case s.serverClock && d == 0:
		return serverNow
	case s.serverClock:
		return gorm.Expr("clock_timestamp() + CAST(? AS interval)", d)
	}
	then := s.now().UTC().Truncate(time.Microsecond).Add(d) // what PostgreSQL keeps
	if s.file != nil {
		return then
	}
	return gorm.Expr("CAST(? AS timestamptz)", then)
}

var serverNow any = gorm.Expr("clock_timestamp()")

// statement has GORM build a statement.
func (s *Store) statement(sql string, vars ...any) batch.Statement {
	built := s.writer.gorm.Raw(sql, vars...).Statement
	return batch.Statement{SQL: built.SQL.String(), Args: built.Vars}
}

// apply does w, within the store's timeout and before the deadlines of ctx, and reports whether it has changed a row. It is
// repeated when the database asks for that (SQLSTATE 40001 and 40P01), or when a row that w refers to was renamed or removed
// meanwhile (23503), and for no other reason; it returns ErrBusy if that was in vain. Once w has begun it is not cut short by
// the caller going away. An error but ErrBusy means that nobody knows what became of it.
func (s *Store) apply(ctx context.Context, w batch.Write) (changed bool, err error) {
	p := s.writer
	begun := time.Now()
	deadline := s.deadline(ctx, begun)
	var started time.Time
	for n := 1; ; n++ {
		j := &batch.Job{Write: &w, Deadline: deadline, Waiting: p.timings.waiting}
		err = s.writes.Apply(ctx, j, begun.Add(s.maxWait))
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

// change is apply for what changes a list: who follows lists is told. A call too many costs a question.
func (s *Store) change(ctx context.Context, w batch.Write) (changed bool, err error) {
	changed, err = s.apply(ctx, w)
	if changed || err != nil {
		s.tell()
	}
	return changed, err
}

// settle is change, and a look-up of why it had no effect, if it had none: reason returns an error, or whether it had to have one. Then
// what was missing has appeared since, and settle tries once more. If that has no effect either, although nothing is missing before
// it nor after it, others have done just then what w does.
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
