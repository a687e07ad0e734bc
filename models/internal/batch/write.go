package batch

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
)

// Write is a change as data, so that it can share a transaction with the changes of other callers. What clients can cause is
// never an error of its statement: an unknown event, a caller who is signed out or what is done already change no row, and the
// caller looks up afterwards why.
type Write struct {
	Kind Kind
	// Event, user and session say what the write is about, as far as it is about one.
	Event, User [16]byte
	Session     [32]byte
	// Statements run in this order, until one changes no row. PostgreSQL takes one alone.
	Statements []Statement
	// Into are the columns of the row that the last statement returns, nil if it returns none. They are the write's own: a caller
	// whose time has ended may be gone before they are filled.
	Into []any
}

// Statement is SQL as the database takes it, with its parameters.
type Statement struct {
	SQL  string
	Args []any
}

// Kind is also the order in which writes stand in a transaction.
type Kind int

const (
	Creates Kind = iota
	Joins
	Leaves
	Refreshes
)

// Compare is the order in which the writes of a transaction run: all transactions take the locks of rows in the same order,
// so that none waits for another that waits for it.
func Compare(a, b *Write) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.Event[:], b.Event[:]), bytes.Compare(a.User[:], b.User[:]), bytes.Compare(a.Session[:], b.Session[:]))
}

// execer is the part of a connection that runs the statements of a write.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Run runs the statements on a connection, in a transaction, and reports whether all have changed a row.
func (w *Write) Run(conn execer) (changed bool, err error) {
	last := len(w.Statements) - 1
	for i, st := range w.Statements {
		if i == last && w.Into != nil {
			return w.query(conn, st)
		}
		res, err := conn.ExecContext(context.Background(), st.SQL, st.Args...)
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
func (w *Write) query(conn execer, st Statement) (changed bool, err error) {
	rows, err := conn.QueryContext(context.Background(), st.SQL, st.Args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if changed = rows.Next(); changed {
		err = rows.Scan(w.Into...)
	}
	return changed, cmp.Or(err, rows.Err(), rows.Close())
}
