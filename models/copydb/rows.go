package copydb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"worldevents/models/internal/schema"
)

// batch is the number of rows that are in memory at once, and are written together.
const batch = 2000

// fill writes the rows of all tables, those of one list together, as PostgreSQL keeps them.
func (c *copying) fill(ctx context.Context) error {
	if err := c.countRows(ctx); err != nil {
		return err
	}
	for _, t := range schema.Copied {
		var rows [][]any
		err := c.each(ctx, c.source, t, func(row []any) error {
			if rows = append(rows, row); len(rows) < batch {
				return nil
			}
			full := rows
			rows = nil
			return c.target.write(ctx, t, full)
		})
		if err == nil {
			err = c.target.write(ctx, t, rows)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return nil
}

// compare reads both sides in the order of the lists, and returns an error unless they have the same rows. Both databases read in that
// order through an index: one of the source that lacks rows gives another number than counting, and one in a wrong order another sum.
func (c *copying) compare(ctx context.Context) error {
	all := sha256.New()
	for _, t := range schema.Copied {
		var rows [2]int64
		sums := [2]hash.Hash{sha256.New(), sha256.New()}
		both, ctx := errgroup.WithContext(ctx)
		for i, side := range []database{c.source, c.target} {
			both.Go(func() error {
				return c.each(ctx, side, t, func(row []any) error {
					rows[i]++
					sums[i].Write(textOf(row))
					return nil
				})
			})
		}
		if err := both.Wait(); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if want := c.result.Rows[t.Name]; rows != [2]int64{want, want} {
			return fmt.Errorf("the copy of %s has %d rows of %d", t.Name, rows[1], want)
		}
		sum := sums[0].Sum(nil)
		if string(sum) != string(sums[1].Sum(nil)) {
			return fmt.Errorf("the copy of %s is not equal: does the source have times finer than microseconds, or a broken index?", t.Name)
		}
		all.Write(sum)
	}
	c.result.Checksum = hex.EncodeToString(all.Sum(nil))
	return nil
}

// textOf is the input of the sum: the values as Go writes them, which no other row has. Times count in microseconds, as in PostgreSQL.
func textOf(row []any) (text []byte) {
	for _, value := range row {
		if t, ok := value.(time.Time); ok {
			value = t.UnixMicro()
		}
		text = fmt.Appendf(text, "%#v,", value)
	}
	return text
}

// each reads a table in the order of the lists.
func (c *copying) each(ctx context.Context, db database, t schema.Table, do func(row []any) error) error {
	columns := schema.Columns[t.Name]
	names, types := strings.Split(columns, ", "), strings.Split(t.Types, ", ")
	return db.each(ctx, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s", columns, t.From(), t.List), func(row []any) error {
		for i, value := range row {
			if wrong := judge(value, types[i]); wrong != "" && !c.isWholeFile() {
				return fmt.Errorf("%s %s, in the row with %s", names[i], wrong, identify(t, row))
			}
		}
		if db == c.source { // compare reads the target at the same time, which is as far
			if c.done++; c.done%1000 == 0 {
				c.Progress(fmt.Sprintf("%s: %d of %d rows", c.step, c.done, c.total))
			}
		}
		return do(row)
	})
}

// identify names a row by its numbers and its id, which are no secrets, unlike hashes and names.
func identify(t schema.Table, row []any) string {
	var parts []string
	for i, name := range strings.Split(schema.Columns[t.Name], ", ") {
		if name == "id" || name == "number" || strings.HasSuffix(name, "_number") {
			parts = append(parts, fmt.Sprintf("%s %v", name, row[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// judge returns what is wrong with a value for a column of the type, or "". SQLite keeps any type in any column, and PostgreSQL times of
// any year. A database's own error could show the value.
func judge(value any, declared string) string {
	if value == nil {
		return ""
	}
	switch declared {
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
	case "timestamptz":
		if t, ok := value.(time.Time); !ok || t.Year() < 1 || t.Year() > 9999 {
			return "is no time of the years 1 to 9999"
		}
	case "bytea":
		if _, ok := value.([]byte); !ok {
			return "is not of the type of bytes"
		}
	}
	return ""
}
