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

// Moment is what one statement saw: every write that was committed before it, and no other. The zero Moment says nothing.
type Moment struct {
	server string // where the statement ran, since that server has counted; "" for a file
	saw    string // a snapshot of PostgreSQL, or the number of the last mark in a file
}

// IsZero reports whether m says nothing.
func (m Moment) IsZero() bool { return m == Moment{} }

// isAfter reports whether the two can be compared, m being the later one.
func (m Moment) isAfter(earlier Moment) bool {
	return !m.IsZero() && !earlier.IsZero() && m.server == earlier.server
}

// sawOrNothing is a parameter of the SQL of moments.
func (m Moment) sawOrNothing() string { return cmp.Or(m.saw, "1:1:") }

// NewMoment reads what the SQL of moments selects, which is empty where there is none.
func NewMoment(text string) Moment {
	server, saw, ok := strings.Cut(text, "|")
	if !ok {
		server, saw = "", text
	}
	return Moment{server, saw}
}

// moments is the SQL about what a statement saw.
type moments struct {
	// now is that of the statement itself, as a text.
	now string
	// firstRow is a query of now in the form of a list's events, with now as the name.
	firstRow string
	// lost is the condition that marks after a moment may be missing.
	lost func(saw string) clause.Expr
	// changed is the condition that a world has a mark after a moment.
	changed func(saw, world string) clause.Expr
	// worlds is a query of the worlds with a mark after a moment, and a condition that is false.
	worlds func(saw string) clause.Expr
	// numbers aggregates n into one text.
	numbers string
}

// A moment of PostgreSQL is a snapshot, and the marks after it are those of transactions that it does not see: all from its
// xmax on, and those before that were running. The index is entered once for all of the former, and once for each of the latter. The
// inner queries are written so that nothing else can be planned, whatever PostgreSQL believes of a table that grows and shrinks by the
// second: none of them can be merged into the outer one, and only the index has their order.
var postgresMoments = moments{
	now:      "moment()",
	firstRow: "SELECT CAST('ffffffff-ffff-ffff-ffff-ffffffffffff' AS uuid), to_timestamp(0), moment(), '', ''",
	lost: func(saw string) clause.Expr {
		return gorm.Expr("NOT EXISTS (SELECT 1 FROM incarnation WHERE horizon <= pg_snapshot_xmin("+postgresSaw+"))", saw)
	},
	changed: func(saw, world string) clause.Expr {
		return gorm.Expr("EXISTS (SELECT 1 FROM changes WHERE world_id = ? AND xid >= pg_snapshot_xmax("+postgresSaw+"))"+
			" OR EXISTS (SELECT 1 FROM pg_snapshot_xip("+postgresSaw+") running,"+
			" LATERAL (SELECT 1 FROM changes WHERE world_id = ? AND xid = running LIMIT 1) mark)",
			world, saw, saw, world)
	},
	worlds: func(saw string) clause.Expr {
		return gorm.Expr("(SELECT world_id, false FROM changes WHERE xid >= pg_snapshot_xmax("+postgresSaw+") ORDER BY xid)"+
			" UNION SELECT world_id, false FROM pg_snapshot_xip("+postgresSaw+") running,"+
			" LATERAL (SELECT world_id FROM changes WHERE xid BETWEEN running AND running ORDER BY xid) mark", saw, saw)
	},
	numbers: "string_agg(CAST(n AS text), ' ')",
}

const postgresSaw = "CAST(CAST(? AS text) AS pg_snapshot)"

// A moment of a file is a number: its marks are numbered in the order of the writes, which are one after the other.
var sqliteMoments = moments{
	now: sqliteLast,
	// The driver reads a time where the first query has a column of times, which is one of no rows here.
	firstRow: "SELECT id, scheduled_at, name, description, '' FROM events WHERE number = 0 UNION ALL " +
		"SELECT 'ffffffff-ffff-ffff-ffff-ffffffffffff', '1970-01-01 00:00:00+00:00', " + sqliteLast + ", '', ''",
	lost: func(saw string) clause.Expr { return gorm.Expr(sqliteLast+" < CAST(? AS INTEGER)", saw) },
	changed: func(saw, world string) clause.Expr {
		return gorm.Expr("EXISTS (SELECT 1 FROM changes WHERE world_id = ? AND number > CAST(? AS INTEGER))", world, saw)
	},
	worlds: func(saw string) clause.Expr {
		return gorm.Expr("SELECT world_id, false FROM changes WHERE number > CAST(? AS INTEGER)", saw)
	},
	numbers: "group_concat(n, ' ')",
}

const sqliteLast = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"

// Changes is the answer to Store.ChangedSince.
type Changes struct {
	// Changed means that a list of the world may be another one by now. It is so in doubt, too.
	Changed bool
	// Now is what the answer saw.
	Now Moment
	// SignedOut are those of the callers who are not active.
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

// someCallers returns those whose numbers, from 1 on, a text has, with spaces between them.
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

// isInRecovery reports whether a server refused to read a table that a standby does not have.
func isInRecovery(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "0A000"
}
