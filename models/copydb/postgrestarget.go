package copydb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"worldevents/models"
	"worldevents/models/internal/schema"
)

// postgresTarget is a database that is being filled in one transaction.
type postgresTarget struct {
	postgresSide
	restore string // statements that make the dropped constraints and indexes, and switch the triggers on again
}

// openPostgresTarget refuses a database that has rows, or that somebody uses, such as another copy or the source itself. The migration
// refuses one with tables of another program.
func openPostgresTarget(ctx context.Context, to side) (target, error) {
	conn, err := pgx.ConnectConfig(ctx, to.postgres)
	if err != nil {
		return nil, err
	}
	t := &postgresTarget{postgresSide: postgresSide{conn}}
	if err = t.prepare(ctx, to); isCode(err, "55P03") {
		err = errors.New("another copy into it is running, or somebody else uses its tables: stop what is running on it")
	}
	return t, err
}

// prepare looks for rows before it makes the schema, which a transaction would be in the way of. Then it begins the one of the copy, and
// drops indexes and constraints, which are made much quicker once the rows are there. No timeout of the server or the role ends a copy,
// which may take hours.
func (t *postgresTarget) prepare(ctx context.Context, to side) error {
	const begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; " + schema.NoLimits + "; SET LOCAL lock_timeout = '5s'; "
	if err := t.exec(ctx, begin); err != nil {
		return err
	}
	if err := t.checkEmpty(ctx); err != nil {
		return err
	}
	if err := t.exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	if err := makeSchema(ctx, models.Options{URL: to.url, MaxConns: 1, Timeout: to.postgres.ConnectTimeout}); err != nil {
		return err
	}
	if err := t.exec(ctx, begin+"SET LOCAL synchronous_commit = on; LOCK TABLE "+copiedNames+" IN ACCESS EXCLUSIVE MODE; SET LOCAL lock_timeout = 0"); err != nil {
		return err
	}
	if err := t.checkEmpty(ctx); err != nil { // rows may have been written since
		return err
	}
	var drop string
	if err := t.conn.QueryRow(ctx, dropAndRestore).Scan(&drop, &t.restore); err != nil {
		return err
	}
	// What a failed copy has written goes at once from tables that its own transaction has truncated.
	return t.exec(ctx, drop+"; TRUNCATE "+copiedNames)
}

// checkEmpty refuses rows and a newer schema.
func (t *postgresTarget) checkEmpty(ctx context.Context) error {
	version, err := schema.Postgres.Version(ctx, t.Value)
	if err == nil && version > schema.Newest() {
		err = errNewerSchema(version)
	}
	if err != nil || version == 0 {
		return err
	}
	for _, table := range schema.CopiedNames() {
		var filled bool
		if err := t.Value(ctx, &filled, "SELECT EXISTS (SELECT 1 FROM "+table+")"); err != nil {
			return err
		}
		if filled {
			return fmt.Errorf("has rows in %s: name an empty database", table)
		}
	}
	return nil
}

var (
	copiedNames = strings.Join(schema.CopiedNames(), ", ")
	// dropAndRestore selects statements that drop what makes writing slow, and others that make it again in the opposite order.
	dropAndRestore = fmt.Sprintf(`
		WITH copied AS (SELECT unnest(ARRAY['%s']::regclass[]) AS tab), parts (step, undo, redo) AS (
			SELECT 1, format('ALTER TABLE %%s DISABLE TRIGGER %%I', tab, tgname), format('ALTER TABLE %%s ENABLE ALWAYS TRIGGER %%I', tab, tgname)
				FROM copied JOIN pg_trigger ON tgrelid = tab WHERE NOT tgisinternal
			UNION ALL SELECT CASE contype WHEN 'f' THEN 2 ELSE 3 END, format('ALTER TABLE %%s DROP CONSTRAINT %%I', tab, conname),
				format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', tab, conname, pg_get_constraintdef(oid))
				FROM copied JOIN pg_constraint ON conrelid = tab WHERE contype IN ('p', 'u', 'f')
			UNION ALL SELECT 4, format('DROP INDEX %%s', CAST(indexrelid AS regclass)), pg_get_indexdef(indexrelid)
				FROM copied JOIN pg_index ON indrelid = tab WHERE NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u')))
		SELECT string_agg(undo, ';' ORDER BY step, undo), string_agg(redo, ';' ORDER BY step DESC, redo) FROM parts`, strings.Join(schema.CopiedNames(), "', '"))
)

// write has CopyFrom ask for the rows, which reads them while the server writes.
func (t *postgresTarget) write(ctx context.Context, table table, rows iter.Seq2[[]any, error]) error {
	next, stop := iter.Pull2(rows)
	defer stop()
	var failed error // of the source
	_, err := t.conn.CopyFrom(ctx, pgx.Identifier{table.Name}, table.names, pgx.CopyFromFunc(func() (row []any, _ error) {
		row, failed, _ = next()
		return row, failed
	}))
	if failed != nil {
		return failed
	}
	return err
}

// finish makes what prepare dropped, which also checks foreign keys and unique keys. Then it sets the sequences
// behind the highest numbers, and gathers statistics, without which the first lists would have bad plans. The triggers were off, so no row
// has left a mark. A new incarnation says instead that every list has changed.
func (t *postgresTarget) finish(ctx context.Context) error {
	return t.exec(ctx, t.restore+"; UPDATE incarnation SET id = gen_random_uuid(); "+schema.SetSequences+"; ANALYZE "+copiedNames)
}

// commit is not interrupted once it has begun, so that it is known whether it happened.
func (t *postgresTarget) commit(ctx context.Context) error {
	if err := t.exec(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w: look whether the target has rows", err)
	}
	return nil
}
