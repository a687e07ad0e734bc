package models

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// write is a change as data, so that it can share a transaction with the changes of other callers. What clients can cause is
// never an error of its statement: an unknown event, a caller who is signed out or what is done already change no row, and the
// caller looks up afterwards why.
type write struct {
	kind writeKind
	// event, user and session say what the write is about, as far as it is about one.
	event, user ID
	session     Hash
	// statements run in this order, until one changes no row. PostgreSQL takes one alone.
	statements []statement
	// into are the columns of the row that the last statement returns, nil if it returns none. They are the write's own: a caller
	// whose time has ended may be gone before they are filled.
	into []any
}

// statement is SQL as the database takes it, with its parameters.
type statement struct {
	sql  string
	args []any
}

// writeKind is also the order in which writes stand in a transaction.
type writeKind int

const (
	creates writeKind = iota
	joins
	leaves
	refreshes
)

// compareWrites is the order in which the writes of a transaction run: all transactions take the locks of rows in the same order,
// so that none waits for another that waits for it.
func compareWrites(a, b *write) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), bytes.Compare(a.event[:], b.event[:]), bytes.Compare(a.user[:], b.user[:]), bytes.Compare(a.session[:], b.session[:]))
}

// statement has GORM build a statement.
func (s *Store) statement(sql string, vars ...any) statement {
	built := s.writer.gorm.Raw(sql, vars...).Statement
	return statement{built.SQL.String(), built.Vars}
}

// apply does w, within the store's timeout and before the deadlines of ctx, and reports whether it has changed a row. It is
// repeated when the database asks for that (SQLSTATE 40001 and 40P01), or when a row that w refers to was renamed or removed
// meanwhile (23503), and for no other reason; it returns ErrBusy if that was in vain. Once w has begun it is not cut short by
// the caller going away. An error but ErrBusy means that nobody knows what became of it.
func (s *Store) apply(ctx context.Context, w write) (changed bool, err error) {
	p := s.writer
	begun := time.Now()
	deadline := s.deadline(ctx, begun)
	var started time.Time
	for n := 1; ; n++ {
		j := &job{write: &w, deadline: deadline, waiting: p.timings.waiting}
		err = s.writes.apply(ctx, j, begun.Add(s.maxWait))
		if started.IsZero() {
			started = j.started()
		}
		if !errors.Is(err, errSerialize) {
			changed = err == nil && j.changed
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
	s.note(err)
	return changed, err
}

// change is apply for what changes a list: who follows lists is told. A call too many costs a question.
func (s *Store) change(ctx context.Context, w write) (changed bool, err error) {
	changed, err = s.apply(ctx, w)
	if changed || err != nil {
		s.tell()
	}
	return changed, err
}

// settle is change, and a look-up of why it had no effect, if it had none: reason returns an error, or whether it had to have one. Then
// what was missing has appeared since, and settle tries once more. If that has no effect either, although nothing is missing before
// it nor after it, others have done just then what w does.
func (s *Store) settle(ctx context.Context, w write, reason func(tx *gorm.DB) (again bool, err error)) (changed bool, err error) {
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

// execer is the part of a connection that runs the statements of a write.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// run runs the statements on a connection, in a transaction, and reports whether all have changed a row.
func (w *write) run(conn execer) (changed bool, err error) {
	last := len(w.statements) - 1
	for i, st := range w.statements {
		if i == last && w.into != nil {
			return w.query(conn, st)
		}
		res, err := conn.ExecContext(context.Background(), st.sql, st.args...)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			if err == nil && i > 0 {
				err = errHalf
			}
			return false, err
		}
	}
	return true, nil
}

// errHalf takes a write back of which only the first statements have changed rows. It is never seen: they run in one transaction.
var errHalf = errors.New("half of a write")

// query runs the statement that returns a row.
func (w *write) query(conn execer, st statement) (changed bool, err error) {
	rows, err := conn.QueryContext(context.Background(), st.sql, st.args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if changed = rows.Next(); changed {
		err = rows.Scan(w.into...)
	}
	return changed, cmp.Or(err, rows.Err(), rows.Close())
}
