package copydb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"worldevents/models"
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
	// Note is called with a text that the operator should know, such as which step begins.
	Note func(text string)
	// Progress is called often, with how far the step has come.
	Progress func(text string)
	// Done is called when the copy is there.
	Done func(Result)
	// Hold keeps everybody from writing to From, which must be a SQLite file, until Done returns; others may go on reading. So a service
	// can be moved to the copy without losing a write.
	Hold bool
}

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
func Copy(ctx context.Context, o Options) error {
	from, err := o.parse(o.From)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	to, err := o.parse(o.To)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	c := copying{Options: o, result: Result{From: from.name, To: to.name}}
	err = c.run(ctx, from, to)
	if ctx.Err() != nil && err != nil {
		err = errors.New("interrupted")
	}
	return err
}

// copying is a copy on its way.
type copying struct {
	Options
	source source
	target target
	result Result
	step   string
	done   int64 // of the source's rows in this step
	total  int64 // of all rows
}

// reader is one side of a copy.
type reader interface {
	// columns is a query for names and types of a table, for which %s stands.
	columns() string
	// query yields the rows of a query. A row is valid until the next one.
	query(ctx context.Context, query string) iter.Seq2[[]any, error]
	close()
}

// source is a snapshot of a database. It shows one moment until it is closed.
type source interface {
	reader
	// Value runs a query for one value.
	Value(ctx context.Context, into any, query string, args ...any) error
	// users says who else has the database open; "" if nobody is known.
	users(ctx context.Context) string
}

// target is a database that is being made. Nobody sees it before commit; close undoes whatever commit has not done.
type target interface {
	reader
	write(ctx context.Context, table table, rows iter.Seq2[[]any, error]) error
	// finish makes indexes, constraints and triggers once the rows are there, and checks foreign keys.
	finish(ctx context.Context) error
	commit(ctx context.Context) error
}

// run makes the copy. It calls Done while the source is still open, and held.
func (c *copying) run(ctx context.Context, from, to side) (err error) {
	about := from.name
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", about, dberr.Classify(err))
		}
	}()
	c.source, err = c.openSource(ctx, from)
	if c.source != nil {
		defer c.source.close()
	}
	if err == nil {
		err = c.examine(ctx, from)
	}
	if err != nil {
		return err
	}
	about = to.name
	c.target, err = c.openTarget(ctx, to)
	if c.target != nil {
		defer c.target.close()
	}
	if err != nil {
		return err
	}
	about = from.name + " to " + to.name
	if who := c.source.users(ctx); who != "" && !c.Hold {
		c.Note("the database is open in " + who + ": what is written from now on is not in the copy. To move to the copy, stop the service first")
	}
	if err := c.make(ctx); err != nil {
		return err
	}
	c.Done(c.result)
	return nil
}

// openSource takes a snapshot of a database. What it returns beside an error is to be closed.
func (c *copying) openSource(ctx context.Context, from side) (source, error) {
	if from.postgres == nil {
		return openSQLiteSource(ctx, from.file)
	}
	if c.Hold {
		return nil, errors.New("only a SQLite file can be held")
	}
	return openPostgresSource(ctx, from.postgres, c.Note)
}

// examine refuses a source whose rows this program cannot copy, holds it, and counts its rows.
func (c *copying) examine(ctx context.Context, from side) error {
	j, err := from.schema.Judge(ctx, c.source.Value)
	switch newest := schema.Newest(); {
	case err != nil:
		return err
	case j.Version == 0:
		return errors.New("has no schema of this program: there is nothing to copy")
	case j.Version < newest:
		return fmt.Errorf("has the schema %d, and this program is for %d: run worldevents migrate with this DATABASE_URL first", j.Version, newest)
	case j.Version > newest:
		return errNewerSchema(j.Version)
	case len(j.Unusable) > 0:
		return errors.New(strings.Join(j.Unusable, "; "))
	}
	if c.Hold {
		if err := c.source.(*sqliteSource).hold(ctx); err != nil {
			return err
		}
	}
	return c.countRows(ctx)
}

func errNewerSchema(version int64) error {
	return fmt.Errorf("has the schema %d, and this program knows only those up to %d: use a newer version of it", version, schema.Newest())
}

// openTarget makes a database without rows. It refuses one that has some. What it returns beside an error is to be closed.
func (c *copying) openTarget(ctx context.Context, to side) (target, error) {
	if to.postgres != nil {
		return openPostgresTarget(ctx, to)
	}
	t, err := createFile(to.file)
	if err != nil {
		return nil, err
	}
	if source, ok := c.source.(*sqliteSource); ok {
		return &fileCopy{t, source}, nil
	}
	return t, t.prepare(ctx)
}

// makeSchema makes the tables of a target.
func makeSchema(ctx context.Context, o models.Options) error {
	store, err := models.Open(o)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Migrate(ctx)
}

// make fills the target, and has it appear if it is equal.
func (c *copying) make(ctx context.Context) error {
	if err := c.fill(ctx); err != nil {
		return err
	}
	c.begin("building indexes")
	if err := c.target.finish(ctx); err != nil {
		return err
	}
	if err := c.compare(ctx); err != nil {
		return err
	}
	return c.target.commit(ctx)
}

// fill writes the rows of all tables. SQLite keeps a table in the order of its key, and writing in that order only appends. PostgreSQL keeps
// rows as they come, so those of one list come together.
func (c *copying) fill(ctx context.Context) error {
	c.begin("copying")
	if file, ok := c.target.(*fileCopy); ok {
		if err := file.vacuum(ctx); err != nil {
			return err
		}
		return c.countRows(ctx) // again, because vacuum has taken a newer snapshot
	}
	for _, t := range schema.Copied {
		table, err := c.describe(ctx, t)
		if err != nil {
			return err
		}
		order := t.Key
		if _, ok := c.target.(*postgresTarget); ok {
			order = t.List
		}
		if err := c.target.write(ctx, table, c.rows(ctx, c.source, table, order)); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return nil
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

// begin says that a step begins.
func (c *copying) begin(step string) {
	c.step, c.done = step, 0
	c.Note(step)
}
