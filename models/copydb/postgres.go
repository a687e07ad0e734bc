package copydb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
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
	return withDetail(s.conn.PgConn().Exec(ctx, statements).Close())
}

// withDetail adds the server's detail to an error, if that names a row by its key. Others have all of its values.
func withDetail(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && strings.HasPrefix(pg.Detail, "Key ") {
		return fmt.Errorf("%w: %s", err, pg.Detail)
	}
	return err
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s.conn.Close(ctx)
	select {
	case <-s.conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

func (s postgresSide) columns() string {
	return `SELECT CAST(attname AS text), format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass('%s') AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attname`
}

// query asks for binary values, whatever the mode in the URL: how a time looks as text depends on settings.
func (s postgresSide) query(ctx context.Context, query string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		rows, err := s.conn.Query(ctx, query, pgx.QueryExecModeDescribeExec)
		if err != nil {
			cancel()
			yield(nil, err)
			return
		}
		defer rows.Close()
		defer cancel() // comes first: Close would read the rows that nobody wants
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
type postgresSource struct {
	postgresSide
	// lock is an advisory lock with a random number that this transaction holds. A target that cannot get the
	// same lock is in the same database, whatever the URLs look like.
	lock   int64
	schema string
}

// openPostgresSource takes the snapshot. Before that it locks the tables: one that is written anew while somebody waits for it looks empty
// to a snapshot of before (PostgreSQL, "Caveats" of MVCC). It waits for as long as others keep them locked, and tells note for whom.
func openPostgresSource(ctx context.Context, config *pgx.ConnConfig, note func(string)) (*postgresSource, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &postgresSource{postgresSide: postgresSide{conn}, lock: rand.Int64()}
	if err = s.begin(ctx, note); err == nil {
		err = s.Value(ctx, &s.schema, "SELECT coalesce(CAST(current_schema() AS text), '') FROM pg_advisory_xact_lock($1)", s.lock)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *postgresSource) begin(ctx context.Context, note func(string)) error {
	const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
	for told := ""; ; {
		// None of these takes a snapshot.
		err := s.exec(ctx, begin+"SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1s'; LOCK TABLE "+copiedNames+" IN ACCESS SHARE MODE; "+schema.NoLimits)
		if isCode(err, "42P01") { // there are no such tables, as is said later
			return s.exec(ctx, "ROLLBACK; "+begin+schema.NoLimits)
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

func (s *postgresSource) users(ctx context.Context) string {
	var n int
	err := s.Value(ctx, &n, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL AND backend_type IS DISTINCT FROM 'parallel worker'`)
	if err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("%d other connections have the database open: what they write from now on is not in the copy. To move to the copy, stop the service first", n)
}
