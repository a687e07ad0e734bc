package copydb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"worldevents/models"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

type Options struct {
	// From and To are URLs as in models.Options. From is a database with the schema of this program; To does not exist yet, or is empty.
	From, To string
	// Timeout bounds the making of a connection. The copy itself takes as long as the database is large.
	Timeout  time.Duration
	Note     func(text string) // called with news for the operator, such as the beginning of a step
	Progress func(text string) // called often, with the progress of the step
	Done     func(Result)      // called when the copy is there
	// Hold keeps everybody from writing to From, which must be a SQLite file, until Done returns; others may read it. So a service can move
	// to the copy without losing a write.
	Hold bool
}

// Result describes a copy.
type Result struct {
	From string           `json:"from"` // without secrets, as To
	To   string           `json:"to"`
	Rows map[string]int64 `json:"rows"` // of each table
	// Checksum is a SHA-256 of all rows in the order of the lists, the same for equal databases in SQLite or PostgreSQL.
	Checksum string `json:"checksum"`
}

// Copy makes To a copy of From as it was at one moment: all of it or nothing. Others may write to From meanwhile. To must be a file that
// does not exist, or a PostgreSQL database without rows. At the end Copy reads both and compares them.
func Copy(ctx context.Context, o Options) error {
	from, err := o.parse(o.From)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	to, err := o.parse(o.To)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	if o.Hold && from.postgres != nil {
		return errors.New("only a SQLite file can be held")
	}
	c := copying{Options: o, from: from, to: to, result: Result{From: from.name, To: to.name}}
	err = c.run(ctx)
	if ctx.Err() != nil && err != nil {
		err = errors.New("interrupted")
	}
	return err
}

// side is one side of a copy.
type side struct {
	url      string
	name     string // the URL without secrets
	schema   schema.Database
	file     string          // "" for PostgreSQL
	postgres *pgx.ConnConfig // nil for SQLite
}

// parse reads a URL. It refuses other texts, which pgx would read as keywords and values, completed from the environment.
func (o Options) parse(text string) (side, error) {
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		file := sqlite.FileOf(path)
		if file == "" || strings.HasSuffix(file, "/") || strings.IndexByte(file, 0) >= 0 {
			return side{}, errors.New("sqlite: needs the name of a file of this machine")
		}
		return side{url: text, name: text, schema: schema.SQLite, file: file}, nil
	}
	if !postgres.IsURL(text) {
		return side{}, errors.New("must be sqlite:FILE or postgres://…")
	}
	config, err := postgres.Parse(text, o.Timeout)
	if err != nil {
		return side{}, err
	}
	return side{url: text, name: postgres.NameOf(config), schema: schema.Postgres, postgres: config}, nil
}

type copying struct {
	Options
	from, to side
	source   database // a snapshot of one moment until it is closed
	target   target
	users    string // other users of the source; "" if none is known
	result   Result
	step     string
	done     int64 // of the source's rows in this step
	total    int64 // of all rows
}

// database is one side of a copy, once it is open.
type database interface {
	// Value runs a query for one value.
	Value(ctx context.Context, into any, query string, args ...any) error
	// each calls do with each row of a query. Both databases return the same types: nil, int64, string, []byte and time.Time.
	each(ctx context.Context, query string, do func(row []any) error) error
	Close()
}

// target is a database that nobody sees before commit. Close undoes it without commit.
type target interface {
	database
	// write adds rows, which have the columns of schema.Columns.
	write(ctx context.Context, t schema.Table, rows [][]any) error
	// finish does what is left to do after the rows, and checks foreign keys.
	finish(ctx context.Context) error
	commit(ctx context.Context) error
}

// run makes the copy. It calls Done while the source is still open, and locked with Hold.
func (c *copying) run(ctx context.Context) error {
	defer func() {
		if c.target != nil {
			c.target.Close()
		}
		if c.source != nil {
			c.source.Close()
		}
	}()
	openSource, openTarget := c.openPostgresSource, c.openPostgresTarget
	if c.from.postgres == nil {
		openSource = c.openSQLiteSource
	}
	if c.to.postgres == nil {
		openTarget = c.openSQLiteTarget
	}
	for _, part := range []struct {
		about string
		do    func(context.Context) error
	}{{c.from.name, openSource}, {c.from.name, c.examine}, {c.to.name, openTarget}, {c.from.name + " to " + c.to.name, c.make}} {
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.about, dberr.Classify(err))
		}
	}
	c.Done(c.result)
	return nil
}

// examine refuses a source whose rows this program cannot copy. With Hold, and for vacuum, it locks the source.
func (c *copying) examine(ctx context.Context) error {
	j, err := c.from.schema.Judge(ctx, c.source.Value)
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
	for _, t := range schema.Copied {
		unknown, err := c.from.schema.UnknownColumns(ctx, c.source.Value, t)
		if err == nil && unknown != "" && !c.isWholeFile() {
			err = fmt.Errorf("the columns of %s differ and cannot be copied: this program knows no %s", t.Name, unknown)
		}
		if err != nil {
			return err
		}
	}
	if !c.Hold && !c.isWholeFile() {
		return nil
	}
	err = dberr.Classify(c.source.(*sqliteSource).hold(ctx))
	if errors.Is(err, dberr.ErrUnwritable) && !c.Hold { // a reader cannot lock; if somebody writes, compare fails
		return nil
	}
	return err
}

func errNewerSchema(version int64) error {
	return fmt.Errorf("has the schema %d, and this program knows only those up to %d: use a newer version of it", version, schema.Newest())
}

// isWholeFile reports whether a file becomes a file, with all its content of whatever type.
func (c *copying) isWholeFile() bool { return c.from.postgres == nil && c.to.postgres == nil }

func makeSchema(ctx context.Context, o models.Options) error {
	store, err := models.Open(o)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Migrate(ctx)
}

// make fills the target, and publishes it if it is equal.
func (c *copying) make(ctx context.Context) error {
	if c.users != "" && !c.Hold {
		c.Note("the database is open in " + c.users + ": what is written from now on is not in the copy. To move to the copy, stop the service first")
	}
	fill := c.fill
	if c.isWholeFile() {
		fill = c.vacuum
	}
	c.begin("copying")
	if err := fill(ctx); err != nil {
		return err
	}
	c.begin("checking")
	if err := c.target.finish(ctx); err != nil {
		return err
	}
	c.begin("comparing")
	if err := c.compare(ctx); err != nil {
		return err
	}
	return c.target.commit(ctx)
}

func (c *copying) countRows(ctx context.Context) (err error) {
	c.result.Rows, err = schema.CountRows(ctx, c.source.Value)
	for _, n := range c.result.Rows {
		c.total += n
	}
	return err
}

func (c *copying) begin(step string) {
	c.step, c.done = step, 0
	c.Note(step)
}
