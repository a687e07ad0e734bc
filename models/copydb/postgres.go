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
	"worldevents/models/internal/schema"
)

// postgresSide is a transaction on a connection of its own: the source for its snapshot, the target so that all rows appear together.
type postgresSide struct{ conn *pgx.Conn }

var copiedNames = strings.Join(schema.CopiedNames(), ", ")

// exec runs statements without parameters.
func (s postgresSide) exec(ctx context.Context, statements string) error {
	return s.conn.PgConn().Exec(ctx, statements).Close()
}

func (s postgresSide) Value(ctx context.Context, into any, query string, args ...any) error {
	return s.conn.QueryRow(ctx, query, args...).Scan(into)
}

// Close rolls back without commit. It waits for a running cancellation: a PgBouncer before 1.20 exits if the process leaves first.
func (s postgresSide) Close() {
	s.conn.Close(context.Background())
	<-s.conn.PgConn().CleanupDone()
}

// each asks for binary values, whatever the mode in the URL. If do fails, so does the copy, and Close ends the query.
func (s postgresSide) each(ctx context.Context, query string, do func(row []any) error) error {
	rows, err := s.conn.Query(ctx, query, pgx.QueryExecModeDescribeExec)
	if err != nil {
		return err
	}
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return err
		}
		for i, value := range row {
			switch v := value.(type) {
			case int32:
				row[i] = int64(v)
			case [16]byte:
				row[i] = models.ID(v).String()
			case time.Time:
				row[i] = v.UTC()
			}
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// openPostgresSource takes a snapshot, a REPEATABLE READ transaction that only reads, and looks for other users.
func (c *copying) openPostgresSource(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, c.from.postgres)
	if err != nil {
		return err
	}
	s := postgresSide{conn}
	c.source = s
	if err := s.takeSnapshot(ctx, c.Note); err != nil {
		return err
	}
	return s.Value(ctx, &c.users, `SELECT CASE WHEN count(*) > 0 THEN format('%s other connections', count(*)) ELSE '' END FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL AND backend_type IS DISTINCT FROM 'parallel worker'`)
}

// takeSnapshot first locks the tables, for the reason of models.lockLists. It waits while others keep them locked, and notes who does.
func (s postgresSide) takeSnapshot(ctx context.Context, note func(string)) error {
	const begin = "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
	for told := ""; ; {
		// None of these takes a snapshot.
		err := s.exec(ctx, begin+"SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1s'; LOCK TABLE "+copiedNames+" IN ACCESS SHARE MODE; "+schema.NoLimits)
		if dberr.IsCode(err, "42P01") { // there are no such tables, as is said later
			return s.exec(ctx, begin+schema.NoLimits)
		}
		if !dberr.IsCode(err, "55P03") {
			return err
		}
		var who string
		if err := s.exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
		if err := s.Value(ctx, &who, schema.LockedBy); err != nil {
			return err
		}
		if who != "" && who != told {
			told = who
			note(who)
		}
	}
}

// openPostgresTarget refuses a database that has rows, or is in use, as by another copy. The migration refuses tables of another program.
func (c *copying) openPostgresTarget(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, c.to.postgres)
	if err != nil {
		return err
	}
	t := postgresSide{conn}
	c.target = t
	if err = t.prepare(ctx, c.to); dberr.IsCode(err, "55P03") {
		err = errors.New("another copy into it is running, or somebody else uses its tables: stop what is running on it")
	}
	return err
}

// prepare looks for rows, makes the schema outside a transaction, begins the transaction of the copy, and looks for rows again.
func (s postgresSide) prepare(ctx context.Context, to side) error {
	if err := s.begin(ctx, ""); err != nil {
		return err
	}
	if err := s.exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	if err := makeSchema(ctx, models.Options{URL: to.url, MaxConns: 1, Timeout: to.postgres.ConnectTimeout}); err != nil {
		return err
	}
	if err := s.begin(ctx, "SET LOCAL synchronous_commit = on; LOCK TABLE "+copiedNames+" IN ACCESS EXCLUSIVE MODE; SET LOCAL lock_timeout = 0"); err != nil {
		return err
	}
	// The rows of a failed copy vanish at once from tables that its transaction truncated. No row leaves a mark: finish changes every list.
	return s.exec(ctx, "TRUNCATE "+copiedNames+"; ALTER TABLE events DISABLE TRIGGER changes_insert; ALTER TABLE rsvps DISABLE TRIGGER changes_insert")
}

// begin begins a transaction with some statements, and refuses rows and a newer schema. No timeout ends a copy, which may take hours.
func (s postgresSide) begin(ctx context.Context, statements string) error {
	err := s.exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "+schema.NoLimits+"; SET LOCAL lock_timeout = '5s'; "+statements)
	if err != nil {
		return err
	}
	version, err := schema.Postgres.Version(ctx, s.Value)
	if err == nil && version > schema.Newest() {
		err = errNewerSchema(version)
	}
	if err != nil || version == 0 {
		return err
	}
	for _, table := range schema.CopiedNames() {
		var filled bool
		if err := s.Value(ctx, &filled, "SELECT EXISTS (SELECT 1 FROM "+table+")"); err != nil {
			return err
		}
		if filled {
			return fmt.Errorf("has rows in %s: name an empty database", table)
		}
	}
	return nil
}

func (s postgresSide) write(ctx context.Context, t schema.Table, rows [][]any) error {
	_, err := s.conn.CopyFrom(ctx, pgx.Identifier{t.Name}, strings.Split(schema.Columns[t.Name], ", "), pgx.CopyFromRows(rows))
	return err
}

// finish sets the sequences, and gathers statistics for the plans of the first lists. The server has checked foreign keys with each write.
func (s postgresSide) finish(ctx context.Context) error {
	return s.exec(ctx, `ALTER TABLE events ENABLE ALWAYS TRIGGER changes_insert; ALTER TABLE rsvps ENABLE ALWAYS TRIGGER changes_insert;
		UPDATE incarnation SET id = gen_random_uuid(); `+schema.SetSequences+"; ANALYZE "+copiedNames)
}

// commit is not interrupted once it has begun, so that its outcome is known.
func (s postgresSide) commit(ctx context.Context) error {
	if err := s.exec(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w: look whether the target has rows", err)
	}
	return nil
}
