package models

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"worldevents/models/internal/postgres"
)

// rows implements database. If not all rows are wanted it closes the connection, which would have to receive the rest.
func (*postgresDatabase) rows(tx *gorm.DB, query string, args []any, each func(*ListedEvent) (more bool)) error {
	ctx := tx.Statement.Context
	return tx.Statement.ConnPool.(postgres.Pool).WithConn(ctx, func(c *pgx.Conn) error {
		rows, _ := c.Query(ctx, numbered(query), args...) // rows has the error, too
		defer rows.Close()
		var row ListedEvent
		for rows.Next() {
			if err := row.read(rows); err != nil {
				return err
			}
			if !each(&row) {
				c.PgConn().Conn().Close()
				return nil
			}
		}
		return rows.Err()
	})
}

// numbered replaces the question marks of a query, which has no others, by $1, $2 and so on.
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

// read takes a row from the wire. Decoding id and time by hand spares the conversions of database/sql. With default_query_exec_mode=exec,
// as behind PgBouncer, they come as text, and pgx reads them.
func (row *ListedEvent) read(rows pgx.Rows) error {
	const id, at = 0, 1
	values, columns := rows.RawValues(), rows.FieldDescriptions()
	row.Name, row.Description, row.Usernames = values[2], values[3], values[4]
	if columns[id].Format == pgx.BinaryFormatCode && columns[at].Format == pgx.BinaryFormatCode {
		row.ID = ID(values[id])
		micros := int64(binary.BigEndian.Uint64(values[at]))
		row.ScheduledAt = time.UnixMicro(postgres.Epoch + micros)
		return nil
	}
	return rows.Scan(&row.ID, &row.ScheduledAt, nil, nil, nil)
}
