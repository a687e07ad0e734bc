package copydb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"worldevents/models/internal/schema"
)

// columns returns the columns of a table, which must be the same on both sides. If one side is PostgreSQL, they
// have its types.
func (c *copying) columns(ctx context.Context, table string) ([]copyColumn, error) {
	from, err := c.source.columns(ctx, table)
	if err != nil {
		return nil, err
	}
	to, err := c.target.columns(ctx, table)
	if err != nil {
		return nil, err
	}
	byName := func(a, b copyColumn) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(from, byName)
	slices.SortFunc(to, byName)
	if !slices.EqualFunc(from, to, func(a, b copyColumn) bool { return a.name == b.name }) {
		return nil, fmt.Errorf("the columns of %s differ: %s here, %s there", table, columnList(from), columnList(to))
	}
	for i := range from {
		from[i].kind = min(from[i].kind, to[i].kind) // PostgreSQL's kinds are the smaller ones
	}
	return from, nil
}

// compare reads both sides in the order of the lists, and returns an error unless they have the same rows. The
// databases read in that order through an index. So a broken index, which lacks rows or has them in a wrong
// order, makes the sums differ, too.
func (c *copying) compare(ctx context.Context) error {
	all := sha256.New()
	var done atomic.Int64
	c.report(Compare, 0, 2*c.total)
	for _, t := range schema.Copied {
		columns, err := c.columns(ctx, t.Name)
		if err != nil {
			return err
		}
		sides := [2]copyDigest{{reader: c.source}, {reader: c.target}}
		both, ctx := errgroup.WithContext(ctx)
		for i := range sides {
			both.Go(func() error {
				return sides[i].add(ctx, t, columns, func() { c.report(Compare, done.Add(1), 2*c.total) })
			})
		}
		if err := both.Wait(); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		from, to := sides[0], sides[1]
		if from.rows != c.result.Rows[t.Name] || to.rows != from.rows {
			return fmt.Errorf("the copy of %s has %d rows of %d", t.Name, to.rows, c.result.Rows[t.Name])
		}
		if from.sum != to.sum {
			return fmt.Errorf("the copy of %s is not equal: does the source have times finer than microseconds, or a broken index?", t.Name)
		}
		all.Write(from.sum[:])
	}
	c.result.Checksum = hex.EncodeToString(all.Sum(nil))
	return nil
}

// copyDigest is what compare knows of a table on one side.
type copyDigest struct {
	reader copyReader
	rows   int64
	sum    [sha256.Size]byte
}

// add reads the table in the order of the lists, and calls next for each row.
func (d *copyDigest) add(ctx context.Context, t schema.Table, columns []copyColumn, next func()) error {
	sum := sha256.New()
	var text []byte
	err := d.reader.read(ctx, t.From(), columns, t.List, func(row copyRow) error {
		d.rows++
		next()
		text = row.appendCanonical(text[:0], columns)
		sum.Write(text)
		return nil
	})
	sum.Sum(d.sum[:0])
	return err
}
