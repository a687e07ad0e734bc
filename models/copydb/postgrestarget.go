package copydb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models"
	"worldevents/models/internal/schema"
)

// postgresTarget is a database that is being filled in one transaction.
type postgresTarget struct {
	postgresSide
	restore string // statements that make the dropped constraints and indexes, and switch the triggers on again
}

// openPostgresTarget refuses a database that is the source, has rows, or has tables of another program.
func openPostgresTarget(ctx context.Context, to side, source source) (*postgresTarget, error) {
	conn, err := pgx.ConnectConfig(ctx, to.postgres)
	if err != nil {
		return nil, err
	}
	t := &postgresTarget{postgresSide: postgresSide{conn}}
	if err = t.checkEmpty(ctx, source); err == nil {
		err = makeSchema(ctx, models.Options{URL: to.url, MaxConns: 1, Timeout: to.postgres.ConnectTimeout})
	}
	if err == nil {
		err = t.prepare(ctx)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// checkEmpty looks before the schema is made. It does so in a transaction, as the lock needs, and ends that, which would stand in the way of
// a migration.
func (t *postgresTarget) checkEmpty(ctx context.Context, source source) error {
	if err := t.exec(ctx, "BEGIN READ WRITE"); err != nil {
		return err
	}
	if from, ok := source.(*postgresSource); ok {
		var same bool
		err := t.Value(ctx, &same, "SELECT NOT pg_try_advisory_xact_lock($1) AND current_schema() = $2", from.lock, from.schema)
		if err != nil {
			return err
		}
		if same {
			return errSameDatabase
		}
	}
	if err := t.checkTables(ctx); err != nil {
		return err
	}
	return t.exec(ctx, "ROLLBACK")
}

// checkTables refuses rows, a newer schema, and tables of another program.
func (t *postgresTarget) checkTables(ctx context.Context) error {
	version, err := schema.Postgres.Version(ctx, t.Value)
	if err == nil && version > schema.Newest() {
		err = errNewerSchema(version)
	}
	if err != nil {
		return err
	}
	for _, table := range schema.CopiedNames() {
		var there, filled bool
		err := t.Value(ctx, &there, fmt.Sprintf(schema.Postgres.HasTableQuery, table))
		if there && version == 0 {
			err = fmt.Errorf("has a table %s that is not this program's: name an empty database", table)
		} else if there {
			err = t.Value(ctx, &filled, "SELECT EXISTS (SELECT 1 FROM "+table+")")
		}
		if filled {
			err = fmt.Errorf("has rows in %s: name an empty database", table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare begins the transaction, locks the tables for it, and drops indexes and constraints, which are made much quicker once the rows are
// there. No timeout of the server or the role ends a copy, which may take hours.
func (t *postgresTarget) prepare(ctx context.Context) error {
	if err := t.exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "+schema.NoLimits); err != nil {
		return err
	}
	var locked bool
	if err := t.Value(ctx, &locked, "SELECT pg_try_advisory_xact_lock($1)", int64(schema.CopyLock)); err != nil {
		return err
	}
	if !locked {
		return errors.New("another copy into it is running")
	}
	// If this program is killed, a server that can look for that notices within two seconds. Otherwise it would
	// hold the locks until it writes to the connection.
	err := t.exec(ctx, "SAVEPOINT watch; SET LOCAL client_connection_check_interval = '2s'")
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		err = t.exec(ctx, "ROLLBACK TO watch")
	}
	if err != nil {
		return err
	}
	err = t.exec(ctx, "SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '5s'; LOCK TABLE "+copiedNames+" IN ACCESS EXCLUSIVE MODE; SET LOCAL lock_timeout = 0")
	if isCode(err, "55P03") {
		return errors.New("somebody uses its tables: stop what is running on it")
	}
	if err == nil {
		err = t.checkTables(ctx) // for rows that were written since the first look
	}
	if err != nil {
		return err
	}
	var drop string
	err = t.Value(ctx, &drop, `
		SELECT concat_ws(';',
			(SELECT string_agg(format('ALTER TABLE %s DISABLE TRIGGER %I', CAST(tgrelid AS regclass), tgname), ';') FROM pg_trigger WHERE `+ourTriggers+`),
			(SELECT string_agg(format('ALTER TABLE %s DROP CONSTRAINT %I', CAST(conrelid AS regclass), conname), ';' ORDER BY contype <> 'f', conname)
				FROM pg_constraint WHERE `+ourConstraints+`),
			(SELECT string_agg(format('DROP INDEX %s', CAST(indexrelid AS regclass)), ';') FROM pg_index WHERE `+ourIndexes+`))`)
	if err != nil {
		return err
	}
	// The triggers are off, so no row leaves a mark. A new incarnation says instead that every list has
	// changed.
	err = t.Value(ctx, &t.restore, `
		SELECT concat_ws(';',
			(SELECT string_agg(pg_get_indexdef(indexrelid), ';') FROM pg_index WHERE `+ourIndexes+`),
			(SELECT string_agg(format('ALTER TABLE %s ADD CONSTRAINT %I %s', CAST(conrelid AS regclass), conname, pg_get_constraintdef(oid)), ';' ORDER BY contype = 'f', conname)
				FROM pg_constraint WHERE `+ourConstraints+`),
			(SELECT string_agg(format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', CAST(tgrelid AS regclass), tgname), ';') FROM pg_trigger WHERE `+ourTriggers+`),
			'UPDATE incarnation SET id = gen_random_uuid()')`)
	if err != nil {
		return err
	}
	// What a failed copy has written goes at once from tables that its own transaction has truncated.
	return t.exec(ctx, drop+"; TRUNCATE "+copiedNames)
}

var (
	copiedNames    = strings.Join(schema.CopiedNames(), ", ")
	ourTables      = "ANY (ARRAY['" + strings.Join(schema.CopiedNames(), "', '") + "']::regclass[])"
	ourConstraints = "conrelid = " + ourTables + " AND contype IN ('p', 'u', 'f')"
	ourIndexes     = "indrelid = " + ourTables + " AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))"
	ourTriggers    = "tgrelid = " + ourTables + " AND NOT tgisinternal"
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
	return withDetail(err)
}

// finish makes what prepare dropped, which also checks foreign keys and unique keys. Then it sets the sequences
// behind the highest numbers, and gathers statistics, without which the first lists would have bad plans.
func (t *postgresTarget) finish(ctx context.Context) error {
	if err := t.exec(ctx, t.restore); err != nil {
		return err
	}
	return t.exec(ctx, schema.SetSequences+"; ANALYZE "+copiedNames)
}

// commit is not interrupted once it has begun, so that it is known whether it happened.
func (t *postgresTarget) commit(ctx context.Context) error {
	if err := t.exec(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w: look whether the target has rows", err)
	}
	return nil
}
