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

// maxAttempts bounds the attempts of a call whose transaction the database wants repeated, and of a read whose connection is lost.
const maxAttempts = 4

// Deadline is the context key of a time.Time that bounds all calls of a Store with that context together; zero bounds nothing. It is no
// deadline of the context, because each of those costs a timer.
type Deadline struct{}

// WithDeadline returns a context in which all calls together have the store's timeout, from now on.
func (s *Store) WithDeadline(ctx context.Context) context.Context {
	return context.WithValue(ctx, Deadline{}, time.Now().Add(s.Timeout()))
}

// write runs fn, which is one statement or one whole transaction, on a connection that may write. The store's timeout and the deadlines of
// ctx bound it, including the queue for a connection.
//
// It repeats fn only if the database asks for that (SQLSTATE 40001 and 40P01), because then nothing of fn has happened, and returns ErrBusy
// if that was in vain. If the caller goes away, fn continues once it has begun: cancelling a statement would cost the pool its connection.
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

// locking is transaction for a call that needs rows which somebody may have locked: those of a user with their sessions, or of an event. id
// stands for their owner, and never for what a client has made up. A call that does not get a lock at once goes to the lane. There it waits
// for half of the store's timeout, and not until its own deadline, which would cost the connection; then it returns ErrLocked, or ErrBusy
// for want of a place. A file has one writer, and no locked rows.
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
			patience := patience // of this attempt
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

// read is write for an fn that changes nothing, on a connection that may be unable to write. It also repeats fn after a lost connection,
// because everybody who shares the fn would fail.
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

// apply is write for the statements of w, which may share a transaction with others' writes, and reports whether w changed a row. It also
// repeats w if a row that w refers to was renamed or removed meanwhile (23503). After an error other than ErrBusy w may have happened.
func (s *Store) apply(ctx context.Context, w batch.Write) (changed bool, err error) {
	err = s.call(ctx, s.writer, s.options.Timeout, func(deadline, giveUp time.Time) (started time.Time, err error) {
		j := &batch.Job{Write: &w, Deadline: deadline, Waiting: s.writer.timings.waiting}
		err = s.writes.Apply(ctx, j, giveUp)
		changed = err == nil && j.Changed
		return j.Started(), err
	})
	return changed, err
}

// settle is apply for a write that changes a list, and whose effect may be missing for a reason. It notifies those who watch lists, even
// after an error, when w may have happened. If w changed no row, reason looks up why in a later snapshot: it returns an error for the
// client, or again if w should have had an effect. Then something appeared between write and look-up, and settle tries once more.
func (s *Store) settle(ctx context.Context, w batch.Write, reason func(tx *gorm.DB) (again bool, err error)) (changed bool, err error) {
	for tries, again := 0, true; again && tries < 2; tries++ {
		if changed, err = s.apply(ctx, w); changed || err != nil {
			s.tell()
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

// call repeats try while the database asks for it, and counts the call. started is zero for a try that got no connection.
func (s *Store) call(ctx context.Context, p pool, timeout time.Duration, try func(deadline, giveUp time.Time) (started time.Time, err error)) error {
	begun := time.Now()
	deadline := s.deadline(ctx, begun.Add(timeout))
	var first time.Time // when it got its first connection
	for n := 1; ; n++ {
		started, err := try(deadline, begun.Add(s.options.MaxWait))
		if first.IsZero() {
			first = started
		}
		s.database.note(err) // so that the next try gets a connection that responds
		refused := errors.Is(err, dberr.ErrSerialize)
		if (refused || p.readsOnly && dberr.IsLost(err)) && n < maxAttempts && time.Now().Before(deadline) {
			p.timings.countError(dberr.ErrSerialize)
			time.Sleep(repeatDelay(n))
			continue
		}
		if refused { // the last try was rolled back, too: nothing has happened
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		p.timings.observe(begun, first, err, UsageOf(ctx))
		return err
	}
}

// deadline is the end of a call: a time, or an earlier deadline of ctx.
func (s *Store) deadline(ctx context.Context, deadline time.Time) time.Time {
	if d, ok := ctx.Value(Deadline{}).(time.Time); ok && !d.IsZero() && d.Before(deadline) {
		deadline = d
	}
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	return deadline
}

// repeatDelay is the wait after n tries: 5, 20 and 45 ms, so that colliding transactions come apart.
func repeatDelay(n int) time.Duration { return time.Duration(n*n) * 5 * time.Millisecond }

// scan reads the columns of the only row of a Raw query into dest. It returns sql.ErrNoRows without a row.
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

// after is the time of writing plus d, as a parameter of a statement: by the clock of the PostgreSQL server, unless Options.Now is set. So
// one clock orders the RSVPs of all instances and decides which sessions have expired.
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

// eachBatch calls each with batches of rows until one has fewer than size, each returns an error, or ctx ends. read returns the batch
// behind a row, the first one for the zero row.
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
