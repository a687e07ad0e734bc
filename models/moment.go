package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Moment is the snapshot of one statement: it saw every write that was committed before it, and no other. The
// zero Moment says nothing.
//
// With a Moment one asks later whether a list may have changed. A time could not say that: a transaction may
// have written a mark before the statement began, and commit after it.
type Moment struct {
	// server says what counted the transactions: the start of the server, the files of the tables, and the
	// incarnation of the marks; "" for a file.
	server string
	// saw is a snapshot of PostgreSQL (pg_snapshot), or the number of the last mark in a file.
	saw string
}

// IsZero reports whether m says nothing.
func (m Moment) IsZero() bool { return m == Moment{} }

// isAfter reports whether m can be compared with an earlier Moment. After a restart, a failover or a restored
// backup it cannot: transactions may be counted anew, and marks may be missing.
func (m Moment) isAfter(earlier Moment) bool {
	return !m.IsZero() && !earlier.IsZero() && m.server == earlier.server
}

// sawOrNothing is m as a parameter of the SQL of moments. The zero Moment becomes a snapshot that saw nothing.
func (m Moment) sawOrNothing() string { return cmp.Or(m.saw, "1:1:") }

// NewMoment reads the text that the SQL of moments selects: empty for no moment, otherwise server and snapshot
// with a | between them, or the number alone.
func NewMoment(text string) Moment {
	server, saw, ok := strings.Cut(text, "|")
	if !ok {
		server, saw = "", text
	}
	return Moment{server, saw}
}

// moments is the SQL that reads and compares Moments.
type moments struct {
	// now is the moment of its own statement, as a text.
	now string
	// firstRow is a query with the columns of a list's events, for one row with now as its name. So the moment
	// and the list come from one statement. Behind now it has a text that is empty unless a condition, its %s,
	// is true.
	firstRow string
	// lost is the condition that marks after a moment may have been pruned already.
	lost func(saw string) clause.Expr
	// changed is the condition that a world has a mark after a moment.
	changed func(saw, world string) clause.Expr
	// worlds is a query of the worlds that have a mark after a moment, some of them more than once; its second
	// column is always false. It reads no more marks than limit at one place.
	worlds func(saw string, limit int) clause.Expr
	// numbers aggregates n into one text.
	numbers string
}

// A moment of PostgreSQL is a snapshot (PostgreSQL, "Transaction ID and Snapshot Information Functions"). The
// marks after it are those of the transactions that the snapshot does not see: all from its xmax on, and those
// before xmax that were running, its xip. One range of the index has all of the former; each of the latter is
// one look-up.
//
// The table of marks grows and shrinks by the second, so PostgreSQL's statistics of it are always wrong, and a plan
// may have been made while it was empty. The inner queries therefore leave the planner no choice: none of them can be
// merged into the outer one, and only the index has their order. EXISTS would drop an order.
var postgresMoments = moments{
	now:      "moment()",
	firstRow: "SELECT CAST('ffffffff-ffff-ffff-ffff-ffffffffffff' AS uuid), to_timestamp(0), moment(), CASE WHEN %s THEN 't' ELSE '' END, ''",
	lost: func(saw string) clause.Expr {
		return gorm.Expr("NOT EXISTS (SELECT 1 FROM incarnation WHERE horizon <= pg_snapshot_xmin("+postgresSaw+"))", saw)
	},
	changed: func(saw, world string) clause.Expr {
		return gorm.Expr("(SELECT true FROM changes WHERE world_id = ? AND xid >= pg_snapshot_xmax("+postgresSaw+") ORDER BY xid LIMIT 1) IS NOT NULL"+
			" OR EXISTS (SELECT 1 FROM pg_snapshot_xip("+postgresSaw+") running,"+
			" LATERAL (SELECT 1 FROM changes WHERE world_id = ? AND xid BETWEEN running AND running ORDER BY xid LIMIT 1) mark)",
			world, saw, saw, world)
	},
	worlds: func(saw string, limit int) clause.Expr {
		return gorm.Expr("(SELECT world_id, false FROM changes WHERE xid >= pg_snapshot_xmax("+postgresSaw+") ORDER BY xid LIMIT ?)"+
			" UNION ALL SELECT world_id, false FROM pg_snapshot_xip("+postgresSaw+") running,"+
			" LATERAL (SELECT world_id FROM changes WHERE xid BETWEEN running AND running ORDER BY xid LIMIT ?) mark", saw, limit, saw, limit)
	},
	numbers: "string_agg(CAST(n AS text), ' ')",
}

const postgresSaw = "CAST(CAST(? AS text) AS pg_snapshot)"

// A moment of a file is a number. A file has one writer, so the numbers of marks have the order of the commits.
var sqliteMoments = moments{
	now: sqliteLast,
	// The driver reads a column as a time if the first query of the union declares it so. That query finds no
	// row here.
	firstRow: "SELECT id, scheduled_at, name, description, '' FROM events WHERE number = 0 UNION ALL " +
		"SELECT 'ffffffff-ffff-ffff-ffff-ffffffffffff', '1970-01-01 00:00:00+00:00', " + sqliteLast + ", CASE WHEN %s THEN 't' ELSE '' END, ''",
	lost: func(saw string) clause.Expr { return gorm.Expr(sqliteLast+" < CAST(? AS INTEGER)", saw) },
	changed: func(saw, world string) clause.Expr {
		return gorm.Expr("EXISTS (SELECT 1 FROM changes WHERE world_id = ? AND number > CAST(? AS INTEGER))", world, saw)
	},
	worlds: func(saw string, limit int) clause.Expr {
		return gorm.Expr("SELECT world_id, false FROM changes WHERE number > CAST(? AS INTEGER) LIMIT ?", saw, limit)
	},
	numbers: "group_concat(n, ' ')",
}

const sqliteLast = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"

// Changes is the answer to Store.ChangedSince.
type Changes struct {
	// Changed means that a list of the world may have changed. It is true in doubt, too.
	Changed bool
	// Now is the moment of the answer.
	Now Moment
	// SignedOut are the callers who are not active.
	SignedOut map[Caller]bool
}

// ChangedSince finds out, in one statement, whether the lists of a world have changed since m, and which of the callers are
// not active.
func (s *Store) ChangedSince(ctx context.Context, m Moment, world string, all []Caller) (Changes, error) {
	var now, signedOut *string
	var lost, changed bool
	err := s.read(ctx, func(tx *gorm.DB) error {
		d := s.dialect.moments
		saw := m.sawOrNothing()
		err := scan(tx.Raw("SELECT "+d.now+", ?, ?, (SELECT "+d.numbers+" FROM "+s.dialect.signedOut()+")",
			d.lost(saw), d.changed(saw, world), callers(all)), &now, &lost, &changed, &signedOut)
		if isInRecovery(err) { // a standby has no marks
			now, lost = nil, true
			err = scan(tx.Raw("SELECT (SELECT "+d.numbers+" FROM "+s.dialect.signedOut()+")", callers(all)), &signedOut)
		}
		return err
	})
	if err != nil {
		return Changes{}, fmt.Errorf("look for changes: %w", err)
	}
	answer := Changes{SignedOut: someCallers(all, signedOut)}
	if now != nil {
		answer.Now = NewMoment(*now)
	}
	answer.Changed = !answer.Now.isAfter(m) || lost || changed
	return answer, nil
}

// someCallers returns the callers whose numbers a text names, counted from 1, with spaces between them.
func someCallers(all []Caller, numbers *string) map[Caller]bool {
	if numbers == nil {
		return nil
	}
	some := make(map[Caller]bool)
	for _, number := range strings.Fields(*numbers) {
		n, _ := strconv.Atoi(number)
		some[all[n-1]] = true
	}
	return some
}

// isInRecovery reports whether a standby refused the statement (SQLSTATE 0A000). The marks are in an unlogged
// table, and a standby has none of those.
func isInRecovery(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "0A000"
}
