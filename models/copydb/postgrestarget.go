package copydb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models"
	"worldevents/models/internal/schema"
)

// postgresTarget is a database that is being filled in one transaction.
type postgresTarget struct {
	postgresSide
	to      side
	restore string // statements that make the dropped constraints and indexes, and switch the triggers on again
}

func openPostgresTarget(ctx context.Context, to side, source *postgresSource) (*postgresTarget, error) {
	side, err := openPostgres(ctx, to.postgres, "BEGIN READ WRITE")
	if err != nil {
		return nil, err
	}
	t := &postgresTarget{postgresSide: side, to: to}
	if err := t.checkEmpty(ctx, source); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// checkEmpty refuses a database that has rows, that is the source itself, or that has tables of another
// program.
func (s postgresSide) checkEmpty(ctx context.Context, source *postgresSource) error {
	if source != nil {
		var same bool
		err := s.Value(ctx, &same, "SELECT NOT pg_try_advisory_xact_lock($1) AND current_schema() = $2", source.lock, source.schema)
		if err != nil {
			return err
		}
		if same {
			return errSameDatabase
		}
	}
	version, err := schema.Postgres.Version(ctx, s.Value)
	if err == nil && version > schema.Newest() {
		err = errNewerSchema(version)
	}
	if err != nil {
		return err
	}
	for _, table := range schema.CopiedNames() {
		var there bool
		err := s.Value(ctx, &there, fmt.Sprintf(schema.Postgres.HasTableQuery, table))
		switch {
		case err != nil:
			return err
		case there && version == 0:
			return fmt.Errorf("has a table %s that is not this program's: name an empty database", table)
		case there:
			if err := s.checkNoRows(ctx, table); err != nil {
				return err
			}
		}
	}
	return nil
}

var errSameDatabase = errors.New("is the database that is to be copied")

func (s postgresSide) checkNoRows(ctx context.Context, table string) error {
	var filled bool
	if err := s.Value(ctx, &filled, "SELECT EXISTS (SELECT 1 FROM "+table+")"); err != nil {
		return err
	}
	if filled {
		return fmt.Errorf("has rows in %s: name an empty database", table)
	}
	return nil
}

// prepare makes the schema, which stays if the copy fails. Then it locks the tables for this transaction, and
// drops indexes and constraints.
func (t *postgresTarget) prepare(ctx context.Context) error {
	t.close() // its transaction would stand in the way of the migration, and an idle connection may be cut
	err := makeSchema(ctx, models.Options{URL: t.to.url, MaxConns: 1, Timeout: t.to.postgres.ConnectTimeout})
	if err != nil {
		return err
	}
	side, err := openPostgres(ctx, t.to.postgres, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	if err != nil {
		return err
	}
	t.postgresSide = side
	var locked bool
	if err := t.Value(ctx, &locked, "SELECT pg_try_advisory_xact_lock($1)", int64(schema.CopyLock)); err != nil {
		return err
	}
	if !locked {
		return errors.New("another copy into it is running")
	}
	// If this program is killed, a server that can look for that notices within two seconds. Otherwise it would
	// hold the locks until it writes to the connection.
	err = t.exec(ctx, "SAVEPOINT watch; SET LOCAL client_connection_check_interval = '2s'")
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		err = t.exec(ctx, "ROLLBACK TO watch")
	}
	if err != nil {
		return err
	}
	err = t.exec(ctx, "SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '5s'; LOCK TABLE "+copiedNames+" IN ACCESS EXCLUSIVE MODE; SET LOCAL lock_timeout = 0")
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "55P03" {
		return errors.New("somebody uses its tables: stop what is running on it")
	}
	if err != nil {
		return err
	}
	for _, table := range schema.CopiedNames() {
		if err := t.checkNoRows(ctx, table); err != nil { // written since the first look
			return err
		}
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
	// COPY with FREEZE wants a table that the same transaction has truncated. Frozen rows need no vacuum later
	// (PostgreSQL, "COPY").
	return t.exec(ctx, drop+"; TRUNCATE "+copiedNames+" RESTART IDENTITY")
}

var (
	copiedNames    = strings.Join(schema.CopiedNames(), ", ")
	ourTables      = "ANY (ARRAY['" + strings.Join(schema.CopiedNames(), "', '") + "']::regclass[])"
	ourConstraints = "conrelid = " + ourTables + " AND contype IN ('p', 'u', 'f')"
	ourIndexes     = "indrelid = " + ourTables + " AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))"
	ourTriggers    = "tgrelid = " + ourTables + " AND NOT tgisinternal"
)

// fill sends the rows as COPY. A goroutine reads them from the source into a pipe, so that source and target
// work at the same time.
func (t *postgresTarget) fill(ctx context.Context, table string, columns []copyColumn, rows func(each func(copyRow) error) error) error {
	pipe, in := io.Pipe()
	read := make(chan error, 1)
	go func() {
		out := bufio.NewWriterSize(in, 64<<10)
		io.WriteString(out, copySignature)
		var data []byte
		err := rows(func(row copyRow) error {
			data = row.append(data[:0])
			_, err := out.Write(data)
			return err
		})
		if err == nil {
			io.WriteString(out, copyTrailer)
			err = out.Flush()
		}
		in.CloseWithError(err)
		read <- err
	}()
	_, err := t.conn.PgConn().CopyFrom(ctx, pipe, fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary, FREEZE)", table, columnList(columns)))
	pipe.CloseWithError(errTargetFailed)
	if readErr := <-read; readErr != nil && !errors.Is(readErr, errTargetFailed) {
		return readErr // the target failed only because of this
	}
	return withDetail(err)
}

var errTargetFailed = errors.New("the target takes no more")

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
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := t.exec(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w: look whether the target has rows", err)
	}
	return nil
}
