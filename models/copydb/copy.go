package copydb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
)

// Options of Copy.
type Options struct {
	// From and To are URLs as in models.Options. From is a database with the schema of this program; To is one
	// that does not exist yet, or is empty.
	From, To string
	// Timeout bounds the making of a connection. A copy itself has no limit of time: it takes as long as the
	// database is large.
	Timeout time.Duration
	// Note is called with a text that the operator should know.
	Note func(text string)
	// Progress is called often, from one goroutine at a time.
	Progress func(Progress)
	// Hold is called when the copy is there. Until it returns nobody can write to From, which must be a SQLite
	// file; others may go on reading. So a service can be moved to the copy without losing a write. It may be
	// nil.
	Hold func(Result)
}

// Progress says how far a step of a copy has come.
type Progress struct {
	Step Step
	// Done and Total count rows of all tables. Total is 0 in a step that counts none.
	Done, Total int64
}

// Step is a part of a copy.
type Step string

// The steps of a copy, in this order.
const (
	Rows    Step = "copying"
	Indexes Step = "building indexes"
	Compare Step = "comparing"
)

// Result is what was copied.
type Result struct {
	// From and To name the databases, without secrets.
	From string `json:"from"`
	To   string `json:"to"`
	// Rows counts those of each table.
	Rows map[string]int64 `json:"rows"`
	// Checksum is a SHA-256 of all rows in the order of the lists. It is the same for equal databases, whether
	// they are in SQLite or in PostgreSQL.
	Checksum string `json:"checksum"`
}

// Copy makes To a copy of From as it was at one moment: all of it or nothing. Others may write to From
// meanwhile. To must be a file that does not exist, or a database in PostgreSQL without rows. At the end Copy
// reads both and compares them.
func Copy(ctx context.Context, o Options) (Result, error) {
	from, to, err := o.sides()
	if err != nil {
		return Result{}, err
	}
	c := copying{Options: o, result: Result{From: from.name, To: to.name}}
	err = c.run(ctx, from, to)
	if ctx.Err() != nil && err != nil {
		err = errors.New("interrupted")
	}
	return c.result, err
}

// copying is a copy on its way.
type copying struct {
	Options
	source copySource
	target copyTarget
	result Result
	total  int64 // of all rows

	reporting sync.Mutex
	reported  Progress
}

// copyReader reads one side of a copy.
type copyReader interface {
	// columns returns the columns of a table that can be written. Generated ones are missing.
	columns(ctx context.Context, table string) ([]copyColumn, error)
	// read calls each with the rows of a table, in the order of these columns, or in any order if that is "". A
	// row is valid only during the call.
	read(ctx context.Context, from string, columns []copyColumn, order string, each func(copyRow) error) error
}

// copySource is a snapshot of a database. It shows one moment until it is closed.
type copySource interface {
	copyReader
	// Value runs a query for one value.
	Value(ctx context.Context, into any, query string, args ...any) error
	// users says who else has the database open; "" if nobody is known. What they write from now on is not in
	// the copy.
	users(ctx context.Context) string
	close()
}

// copyTarget is a database that is being made. Nobody sees it before commit.
type copyTarget interface {
	copyReader
	// prepare makes the schema without what finish makes.
	prepare(ctx context.Context) error
	// fill writes the rows of a table. It calls rows once, which calls each for every row: so the target
	// decides when it is ready for them.
	fill(ctx context.Context, table string, columns []copyColumn, rows func(each func(copyRow) error) error) error
	// finish makes indexes, constraints and triggers once the rows are there, which is quicker than keeping
	// them up to date row by row. It also checks them.
	finish(ctx context.Context) error
	// commit makes the copy appear. close undoes whatever commit has not done.
	commit(ctx context.Context) error
	close()
}

// run makes the copy. It calls Hold while the source is still open, and held.
func (c *copying) run(ctx context.Context, from, to side) (err error) {
	if c.Hold != nil && from.postgres != nil {
		return fmt.Errorf("%s: only a SQLite file can be held", from.name)
	}
	if c.source, err = from.openSource(ctx, c.Note); err != nil {
		return fmt.Errorf("%s: %w", from.name, dberr.Classify(err))
	}
	defer c.source.close()
	if err := checkSourceSchema(ctx, from.schema, c.source.Value); err != nil {
		return fmt.Errorf("%s: %w", from.name, dberr.Classify(err))
	}
	if c.Hold != nil {
		if err := c.source.(*sqliteSource).hold(ctx); err != nil {
			return fmt.Errorf("%s: %w", from.name, dberr.Classify(err))
		}
	}
	if err := c.countRows(ctx); err != nil {
		return fmt.Errorf("%s: %w", from.name, dberr.Classify(err))
	}
	if c.target, err = to.openTarget(ctx, c.source); err != nil {
		return fmt.Errorf("%s: %w", to.name, dberr.Classify(err))
	}
	defer c.target.close()
	if err := c.target.prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", to.name, dberr.Classify(err))
	}
	if who := c.source.users(ctx); who != "" {
		c.Note(who)
	}
	// From a file to a file SQLite copies its own pages.
	if file, ok := c.target.(*sqliteFileCopy); ok {
		err = file.vacuum(ctx, func(part float64) { c.report(Rows, int64(part*float64(c.total)), c.total) })
		if err == nil {
			err = c.countRows(ctx) // again, because vacuum has taken a newer snapshot
		}
	} else {
		err = c.fill(ctx, to.postgres != nil)
	}
	if err == nil {
		c.report(Indexes, 0, 0)
		err = c.target.finish(ctx)
	}
	if err == nil {
		err = c.compare(ctx)
	}
	if err == nil {
		err = c.target.commit(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s to %s: %w", from.name, to.name, dberr.Classify(err))
	}
	if c.Hold != nil {
		c.Hold(c.result)
	}
	return nil
}

// openSource takes a snapshot of the database.
func (s side) openSource(ctx context.Context, note func(string)) (copySource, error) {
	if s.postgres == nil {
		return openSQLiteSource(ctx, s.file)
	}
	return openPostgresSource(ctx, s.postgres, note)
}

// openTarget makes a file, or connects to the database. It refuses one that has rows, and the source itself.
func (s side) openTarget(ctx context.Context, source copySource) (copyTarget, error) {
	if s.postgres == nil {
		file, _ := source.(*sqliteSource)
		return openSQLiteTarget(s.file, file)
	}
	postgres, _ := source.(*postgresSource)
	return openPostgresTarget(ctx, s, postgres)
}

// report calls Progress, though not for every row.
func (c *copying) report(step Step, done, total int64) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	if step == c.reported.Step && done < total && done-c.reported.Done < 1000 {
		return
	}
	c.reported = Progress{step, done, total}
	c.Progress(c.reported)
}

// countRows counts what there is to copy.
func (c *copying) countRows(ctx context.Context) (err error) {
	c.result.Rows, err = schema.CountRows(ctx, c.source.Value)
	c.total = 0
	for _, n := range c.result.Rows {
		c.total += n
	}
	return err
}

// fill writes the rows of all tables. SQLite keeps a table in the order of its key, and writing in that order
// only appends. PostgreSQL keeps rows as they come, so that reading in any order is quickest.
func (c *copying) fill(ctx context.Context, anyOrder bool) error {
	var done int64
	c.report(Rows, 0, c.total)
	for _, t := range schema.Copied {
		columns, err := c.columns(ctx, t.Name)
		if err != nil {
			return err
		}
		order := t.Key
		if anyOrder {
			order = ""
		}
		err = c.target.fill(ctx, t.Name, columns, func(each func(copyRow) error) error {
			return c.source.read(ctx, t.From(), columns, order, func(row copyRow) error {
				done++
				c.report(Rows, done, c.total)
				return each(row)
			})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return nil
}
