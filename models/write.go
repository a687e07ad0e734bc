package models

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
)

// write is a change as data, so that it can share a transaction with the changes of other callers. What clients can cause is
// never an error of its statement: an unknown event, a caller who is signed out or what is done already change no row, and the
// caller looks up afterwards why.
type write struct {
	kind writeKind
	// event, user and session say what the write is about, as far as it is about one.
	event, user [16]byte
	session     [32]byte
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
