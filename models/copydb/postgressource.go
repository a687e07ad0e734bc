package copydb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/schema"
)

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
	side, err := connectPostgres(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &postgresSource{postgresSide: side, lock: rand.Int64()}
	if err = s.begin(ctx, note); err == nil {
		err = s.Value(ctx, &s.schema, "SELECT coalesce(CAST(current_schema() AS text), '') FROM pg_advisory_xact_lock($1)", s.lock)
	}
	if err != nil {
		side.close()
		return nil, err
	}
	return s, nil
}

func (s *postgresSource) begin(ctx context.Context, note func(string)) error {
	const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
	for told := ""; ; {
		// None of these takes a snapshot.
		err := s.exec(ctx, begin+"SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1s'; LOCK TABLE "+copiedNames+" IN ACCESS SHARE MODE; "+schema.NoLimits)
		pg := new(pgconn.PgError)
		switch {
		case !errors.As(err, &pg):
			return err
		case pg.Code == "42P01": // there are no such tables, as is said later
			return s.exec(ctx, "ROLLBACK; "+begin+schema.NoLimits)
		case pg.Code != "55P03":
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
