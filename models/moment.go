package models

import (
	"cmp"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"worldevents/models/internal/dberr"
)

// Moment is the snapshot of one statement: it saw every write that was committed before it, and no other. The zero Moment says nothing.
//
// A Moment shows later whether a list may have changed. A time could not: a mark may be written before the statement, and committed after.
type Moment struct {
	// server identifies what counts transactions: start of the server, files of the tables, and incarnation of the marks; "" for a file.
	server string
	saw    string // a snapshot of PostgreSQL (pg_snapshot), or the number of the last mark in a file
}

func (m Moment) IsZero() bool { return m == Moment{} }

// isAfter reports whether m can be compared with an earlier Moment. After a restart, a failover or a restored backup it cannot:
// transactions may be counted anew, and marks may be missing.
func (m Moment) isAfter(earlier Moment) bool {
	return !m.IsZero() && !earlier.IsZero() && m.server == earlier.server
}

// sawOrNothing is m as a parameter of the SQL of moments. The zero Moment becomes a snapshot that saw nothing.
func (m Moment) sawOrNothing() string { return cmp.Or(m.saw, "1:1:") }

// NewMoment reads a text of moments.now: empty for no moment, otherwise server|snapshot, or a number alone.
func NewMoment(text string) Moment {
	server, saw, ok := strings.Cut(text, "|")
	if !ok {
		server, saw = "", text
	}
	return Moment{server, saw}
}

// moments is the SQL that reads and compares Moments.
type moments struct {
	now string // the moment of its own statement, as a text
	// firstRow is a query with the columns of a list's events, for one row with now, its first %s, as its name, so that moment and list come
	// from one statement. The text behind now is empty unless a condition, the second %s, is true.
	firstRow string
	// lost is the condition that marks after a moment may have been pruned.
	lost    func(saw any) clause.Expr
	changed string // the condition that a world has a mark after a moment; both are columns
	// worlds is a query of the worlds with a mark after a moment, some of them more than once; its second column is always false. It reads
	// no more marks than limit at one place.
	worlds  func(saw string, limit int) clause.Expr
	numbers string // aggregates n into one text
}

// A moment of PostgreSQL is a snapshot (PostgreSQL, "Transaction ID and Snapshot Information Functions"), with the start of the server and
// the files of the tables. A table gets another file when it is emptied or written anew (TRUNCATE, ALTER TABLE), which fires no trigger for
// rows. The marks after a snapshot are those of the transactions that it does not see: all from its xmax on, and those before xmax that were
// running, its xip. One range of the index has all of the former; each of the latter is one look-up.
//
// The table of marks grows and shrinks by the second, so its statistics are always wrong, and a plan may have been made while it was empty.
// So the inner queries leave the planner no choice: none can be merged into the outer one, and only the index has their order. EXISTS would
// drop an order.
var postgresMoments = moments{
	now: `(SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), pg_relation_filepath(tableoid), pg_relation_filenode('events'),
		pg_relation_filenode('rsvps'), pg_relation_filenode('changes'), id) || '|' || pg_current_snapshot() FROM incarnation)`,
	firstRow: "SELECT CAST('ffffffff-ffff-ffff-ffff-ffffffffffff' AS uuid), to_timestamp(0), %s, CASE WHEN %s THEN 't' ELSE '' END, ''",
	lost: func(saw any) clause.Expr {
		return gorm.Expr("NOT EXISTS (SELECT 1 FROM incarnation WHERE horizon <= pg_snapshot_xmin("+postgresSaw+"))", saw)
	},
	changed: "(SELECT true FROM changes WHERE (world_id, xid) >= (world, pg_snapshot_xmax(CAST(saw AS pg_snapshot)))" +
		" AND (world_id, xid) <= (world, CAST('18446744073709551615' AS xid8)) ORDER BY world_id, xid LIMIT 1) IS NOT NULL" +
		" OR EXISTS (SELECT 1 FROM pg_snapshot_xip(CAST(saw AS pg_snapshot)) running," +
		" LATERAL (SELECT 1 FROM changes WHERE (world_id, xid) >= (world, running) AND (world_id, xid) <= (world, running) ORDER BY world_id, xid LIMIT 1) mark)",
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
	// The driver reads a column as a time if the first query of the union declares it so. That query finds no row.
	firstRow: "SELECT id, scheduled_at, name, description, '' FROM events WHERE number = 0 UNION ALL " +
		"SELECT 'ffffffff-ffff-ffff-ffff-ffffffffffff', '1970-01-01 00:00:00+00:00', %s, CASE WHEN %s THEN 't' ELSE '' END, ''",
	lost: func(saw any) clause.Expr {
		return gorm.Expr("NOT EXISTS (SELECT 1 FROM incarnation WHERE CAST(? AS INTEGER) BETWEEN horizon AND "+sqliteLast+")", saw)
	},
	changed: "EXISTS (SELECT 1 FROM changes WHERE world_id = world AND number > CAST(saw AS INTEGER))",
	worlds: func(saw string, limit int) clause.Expr {
		return gorm.Expr("SELECT world_id, false FROM changes WHERE number > CAST(? AS INTEGER) LIMIT ?", saw, limit)
	},
	numbers: "group_concat(n, ' ')",
}

const sqliteLast = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"

// numbersIn parses the text of moments.numbers.
func numbersIn(text *string) (numbers []int) {
	if text == nil {
		return nil
	}
	for _, number := range strings.Fields(*text) {
		n, _ := strconv.Atoi(number)
		numbers = append(numbers, n)
	}
	return numbers
}

// isInRecovery reports whether a standby refused the statement: the marks are in an unlogged table, which a standby does not have.
func isInRecovery(err error) bool { return dberr.IsCode(err, "0A000") }
