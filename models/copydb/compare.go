package copydb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"golang.org/x/sync/errgroup"

	"worldevents/models/internal/schema"
)

// compare reads both sides in the order of the lists, and returns an error unless they have the same rows. The
// databases read in that order through an index. So a broken index, which lacks rows or has them in a wrong
// order, makes the sums differ, too.
func (c *copying) compare(ctx context.Context) error {
	all := sha256.New()
	c.begin("comparing")
	for _, t := range schema.Copied {
		table, err := c.describe(ctx, t)
		if err != nil {
			return err
		}
		var rows [2]int64
		var sums [2][]byte
		both, ctx := errgroup.WithContext(ctx)
		for i, side := range []reader{c.source, c.target} {
			both.Go(func() error {
				sum, text := sha256.New(), []byte(nil)
				for row, err := range c.rows(ctx, side, table, t.List) {
					if err != nil {
						return err
					}
					text = appendRow(text[:0], row)
					sum.Write(text)
					rows[i]++
				}
				sums[i] = sum.Sum(nil)
				return nil
			})
		}
		if err := both.Wait(); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if want := c.result.Rows[t.Name]; rows != [2]int64{want, want} {
			return fmt.Errorf("the copy of %s has %d rows of %d", t.Name, rows[1], want)
		}
		if string(sums[0]) != string(sums[1]) {
			return fmt.Errorf("the copy of %s is not equal: does the source have times finer than microseconds, or a broken index?", t.Name)
		}
		all.Write(sums[0])
	}
	c.result.Checksum = hex.EncodeToString(all.Sum(nil))
	return nil
}
