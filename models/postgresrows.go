package models

import (
	"cmp"
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"worldevents/models/internal/postgres"
)

// rows implements database.
func (*postgresDatabase) rows(tx *gorm.DB, query string, args []any, each func(*listRow) (more bool)) error {
	ctx := tx.Statement.Context
	return tx.Statement.ConnPool.(postgres.Pool).WithConn(ctx, func(c *pgx.Conn) error {
		return readRows(ctx, c, numbered(query), args, each)
	})
}

// snapshot implements database. REPEATABLE READ takes the snapshot at the first query, which is sent together
// with BEGIN and the locks in one round trip.
func (*postgresDatabase) snapshot(tx *gorm.DB, fn func(rows rowsFunc) error) error {
	ctx := tx.Statement.Context
	return tx.Statement.ConnPool.(postgres.Pool).WithConn(ctx, func(c *pgx.Conn) error {
		begun := false
		err := fn(func(query string, args []any, each func(*listRow) (more bool)) error {
			read := readRows
			if !begun {
				begun, read = true, beginAndReadRows
			}
			return read(ctx, c, numbered(query), args, each)
		})
		if begun { // it has only read, so that committing is no more than ending
			_, ended := c.Exec(ctx, "COMMIT")
			err = cmp.Or(err, ended)
		}
		return err
	})
}

// lockLists keeps ALTER TABLE and TRUNCATE away until the end of the transaction. It comes before the snapshot: a table that is written
// anew while a query waits for it looks empty to a snapshot of before (PostgreSQL, "Caveats" of MVCC).
const lockLists = "LOCK TABLE users, sessions, events, rsvps, changes, incarnation IN ACCESS SHARE MODE"

// beginAndReadRows is readRows as the first query of a transaction whose queries all see the same snapshot.
func beginAndReadRows(ctx context.Context, c *pgx.Conn, query string, args []any, each func(*listRow) (more bool)) error {
	var all pgx.Batch
	all.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	all.Queue(lockLists)
	all.Queue(query, args...)
	results := c.SendBatch(ctx, &all)
	defer results.Close()
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	rows, _ := results.Query() // rows has the error, too
	if err := eachRow(rows, each); err != nil {
		return err
	}
	return results.Close()
}

// numbered replaces the question marks of a query by $1, $2 and so on. Our queries have no question mark
// elsewhere.
func numbered(query string) string {
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// readRows runs a query.
func readRows(ctx context.Context, c *pgx.Conn, query string, args []any, each func(*listRow) (more bool)) error {
	rows, _ := c.Query(ctx, query, args...) // rows has the error, too
	return eachRow(rows, each)
}

// eachRow calls each with the rows of a query until it wants no more, and closes them. The connection receives
// the rest and drops it.
func eachRow(rows pgx.Rows, each func(*listRow) (more bool)) error {
	defer rows.Close()
	var row listRow
	for rows.Next() {
		if err := row.read(rows); err != nil {
			return err
		}
		if !each(&row) {
			break
		}
	}
	rows.Close()
	return rows.Err()
}

// read takes a row as it is on the wire: id, time, texts. Decoding these two by hand spares every row the
// conversions of database/sql. With default_query_exec_mode=exec, as behind PgBouncer, they come as text, and
// pgx reads them.
func (row *listRow) read(rows pgx.Rows) error {
	const id, at = 0, 1
	values, columns := rows.RawValues(), rows.FieldDescriptions()
	copy(row.texts[:], values[2:])
	if columns[id].Format == pgx.BinaryFormatCode && columns[at].Format == pgx.BinaryFormatCode {
		row.id = ID(values[id])
		micros := int64(binary.BigEndian.Uint64(values[at]))
		row.at = time.UnixMicro(postgres.Epoch + micros)
		return nil
	}
	into := []any{&row.id, &row.at, nil, nil, nil, nil, nil}
	return rows.Scan(into[:len(values)]...)
}
