package batch

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
)

// Write describes a change that can share a transaction with other callers' changes.
//
// No client can cause an error of a statement, which would cost the others their transaction. An unknown event, a caller who is signed out,
// or a repetition changes no row. The statement returns the reason, or the caller looks it up afterwards.
type Write struct {
	Kind        Kind
	Event, User [16]byte // zero if they do not apply, as Session
	Session     [32]byte
	Statements  []Statement // run in this order; PostgreSQL takes only one
	// Into takes the columns of the row that the last statement returns; nil without one. Its variables are the write's own: a caller that
	// has timed out may be gone before they are filled.
	Into []any
}

// IDs are those of the rows that w may have to wait for.
func (w *Write) IDs() []string {
	if w.Kind == Refreshes {
		return []string{string(w.Session[:])}
	}
	return []string{string(w.Event[:]), string(w.User[:])}
}

// Statement is SQL with its parameters, in the spelling of one database.
type Statement struct {
	SQL  string
	Args []any
}

// Kind is the kind of a write. Transactions run them in this order, but for Joins and Leaves.
type Kind int

const (
	Creates Kind = iota
	Edits        // change the event itself, or remove it
	Joins
	Leaves
	Refreshes
)

// rank is the place of a kind among the kinds. Joins and leaves refer to the row that an edit of their event changes, so these three are
// ordered by their events together. The edits of an event come first: joins and leaves share its row, and two transactions that did would
// each wait for the other before they could remove it.
func (k Kind) rank() Kind {
	if k == Joins || k == Leaves {
		return Edits
	}
	return k
}

// Compare orders the writes of a transaction. All transactions lock their rows in this order, so that no two of them wait for each other.
func Compare(a, b *Write) int {
	return cmp.Or(cmp.Compare(a.Kind.rank(), b.Kind.rank()), bytes.Compare(a.Event[:], b.Event[:]), cmp.Compare(a.Kind, b.Kind),
		bytes.Compare(a.User[:], b.User[:]), bytes.Compare(a.Session[:], b.Session[:]))
}

// execer is the part of a connection that a write needs.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Run runs the statements on a connection, in a transaction, and reports whether the last one changed or returned a row.
func (w *Write) Run(conn execer) (changed bool, err error) {
	for i, st := range w.Statements {
		if w.Into != nil && i == len(w.Statements)-1 {
			return w.query(conn, st)
		}
		res, err := conn.ExecContext(context.Background(), st.SQL, st.Args...)
		if err != nil {
			return false, err
		}
		n, err := res.RowsAffected()
		if changed = n > 0; err != nil {
			return false, err
		}
	}
	return changed, nil
}

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
