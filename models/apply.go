package models

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

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
