package copydb

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"worldevents/models/internal/schema"
)

// table is a table that is copied. Its rows are []any, and have the same values from either database: nil, int64, string, []byte and
// time.Time.
type table struct {
	schema.Table
	names []string // of the columns, which are of our own schema and need no quotes
	types []string // in PostgreSQL, if one of the sides is that; else "", for values of any type
}

// describe returns a table with its columns, which must be the same on both sides.
func (c *copying) describe(ctx context.Context, t schema.Table) (table, error) {
	from, err := columnsOf(ctx, c.source, t)
	if err != nil {
		return table{}, err
	}
	to, err := columnsOf(ctx, c.target, t)
	switch {
	case err != nil:
		return table{}, err
	case !slices.Equal(from.names, to.names):
		return table{}, fmt.Errorf("the columns of %s differ and cannot be copied: %s here, %s there", t.Name, strings.Join(from.names, ", "), strings.Join(to.names, ", "))
	}
	for i, declared := range from.types {
		to.types[i] = cmp.Or(to.types[i], declared)
	}
	return to, nil
}

// columnsOf reads the columns of a table that can be written, by name. Generated ones are missing.
func columnsOf(ctx context.Context, db reader, of schema.Table) (table, error) {
	t := table{Table: of}
	for row, err := range db.query(ctx, fmt.Sprintf(db.columns(), t.Name)) {
		if err != nil {
			return t, err
		}
		t.names, t.types = append(t.names, row[0].(string)), append(t.types, row[1].(string))
	}
	return t, nil
}

// rows reads a table in an order. A row is valid until the next one.
func (c *copying) rows(ctx context.Context, db reader, t table, order string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for row, err := range db.query(ctx, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s", strings.Join(t.names, ", "), t.From(), order)) {
			if err == nil {
				err = t.check(row)
			}
			if db == c.source { // compare reads the target at the same time, which is as far
				if c.done++; c.done%1000 == 0 {
					c.Progress(fmt.Sprintf("%s: %d of %d rows", c.step, c.done, c.total))
				}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// check refuses a row with a value that is not of its column's type.
func (t table) check(row []any) error {
	for i, declared := range t.types {
		if row[i] == nil {
			continue
		}
		if wrong := judge(row[i], declared); wrong != "" {
			return fmt.Errorf("%s %s, in the row with %s", t.names[i], wrong, t.identify(row))
		}
	}
	return nil
}

// identify names a row by its numbers and its id. None of them is a secret, as a hash or a name could be.
func (t table) identify(row []any) string {
	var parts []string
	for i, name := range t.names {
		if name == "id" || name == "number" || strings.HasSuffix(name, "_number") {
			parts = append(parts, fmt.Sprintf("%s %v", name, row[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// judge says what is wrong with a value for a column of the type, which a migration of PostgreSQL declares; "" if nothing is. SQLite keeps
// any type in any column, and PostgreSQL keeps times of any year. No text of a database's own error may show the value.
func judge(value any, declared string) string {
	switch declared {
	case "":
	case "integer", "bigint":
		if n, ok := value.(int64); !ok || declared == "integer" && n != int64(int32(n)) {
			return "is no integer of the column's size"
		}
	case "uuid":
		s, _ := value.(string)
		if id, err := uuid.Parse(s); err != nil || id.String() != s {
			return "is no UUID"
		}
	case "text":
		switch s, ok := value.(string); {
		case !ok:
			return "is no text"
		case strings.IndexByte(s, 0) >= 0:
			return "has a NUL, which PostgreSQL cannot keep"
		case !utf8.ValidString(s):
			return "is not UTF-8, which PostgreSQL needs"
		}
	case "timestamp with time zone":
		if t, ok := value.(time.Time); !ok || t.Year() < 1 || t.Year() > 9999 {
			return "is no time of the years 1 to 9999"
		}
	case "bytea":
		if _, ok := value.([]byte); !ok {
			return "is not of the type of bytes"
		}
	default:
		return "is of the type " + declared + ", which cannot be copied"
	}
	return ""
}

// appendRow appends a row to what is summed. Each value has its length in front, so that no two rows give the same bytes by values that
// run into each other. Times count in microseconds, as PostgreSQL keeps them.
func appendRow(b []byte, row []any) []byte {
	for _, value := range row {
		if value == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 1, 0, 0, 0, 0)
		begin := len(b)
		switch v := value.(type) {
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		case time.Time:
			b = binary.BigEndian.AppendUint64(b, uint64(v.UnixMicro()))
		default: // which only SQLite has, and copies into another file
			b = fmt.Append(b, v)
		}
		binary.BigEndian.PutUint32(b[begin-4:], uint32(len(b)-begin))
	}
	return b
}
