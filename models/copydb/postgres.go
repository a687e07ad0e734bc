package copydb

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models"
	"worldevents/models/internal/schema"
)

// postgresSide is a transaction in a PostgreSQL database, on a connection of its own: the source for its snapshot, the target so that all
// rows appear together.
type postgresSide struct{ conn *pgx.Conn }

// exec runs statements without parameters.
func (s postgresSide) exec(ctx context.Context, statements string) error {
	return s.conn.PgConn().Exec(ctx, statements).Close()
}

// isCode reports whether the server has refused a statement with the code.
func isCode(err error, code string) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == code
}

func (s postgresSide) Value(ctx context.Context, into any, query string, args ...any) error {
	return s.conn.QueryRow(ctx, query, args...).Scan(into)
}

// close rolls back what is not committed. If a statement was interrupted, close waits until it is cancelled: a
// PgBouncer before version 1.20 exits if the process that asked for the cancellation goes away first.
func (s postgresSide) close() {
	s.conn.Close(context.Background())
	<-s.conn.PgConn().CleanupDone()
}

func (s postgresSide) columns() string {
	return `SELECT CAST(attname AS text), format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass('%s') AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attname`
}

// query asks for binary values, whatever the mode in the URL. If not all rows are wanted the copy has failed, and close ends the query.
func (s postgresSide) query(ctx context.Context, query string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := s.conn.Query(ctx, query, pgx.QueryExecModeDescribeExec)
		if err != nil {
			yield(nil, err)
			return
		}
		for rows.Next() {
			row, err := rows.Values()
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
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// postgresSource is a snapshot of a database: a REPEATABLE READ transaction that only reads.
type postgresSource struct{ postgresSide }

func openPostgresSource(ctx context.Context, config *pgx.ConnConfig, note func(string)) (source, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := postgresSource{postgresSide{conn}}
	return s, s.begin(ctx, note)
}

// begin takes the snapshot. Before that it locks the tables: one that is written anew while somebody waits for it looks empty to a
// snapshot of before (PostgreSQL, "Caveats" of MVCC). It waits for as long as others keep them locked, and tells note for whom.
func (s postgresSource) begin(ctx context.Context, note func(string)) error {
	const begin = "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
	for told := ""; ; {
		// None of these takes a snapshot.
		err := s.exec(ctx, begin+"SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1s'; LOCK TABLE "+copiedNames+" IN ACCESS SHARE MODE; "+schema.NoLimits)
		if isCode(err, "42P01") { // there are no such tables, as is said later
			return s.exec(ctx, begin+schema.NoLimits)
		}
		if !isCode(err, "55P03") {
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

func (s postgresSource) users(ctx context.Context) (who string) {
	s.Value(ctx, &who, `SELECT CASE WHEN count(*) > 0 THEN format('%s other connections', count(*)) ELSE '' END FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL AND backend_type IS DISTINCT FROM 'parallel worker'`)
	return who // nobody is known if that fails
}
