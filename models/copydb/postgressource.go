package copydb

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
)

// postgresSource is a snapshot of a database: a REPEATABLE READ transaction that only reads.
type postgresSource struct {
	postgresSide
	// lock is an advisory lock with a random number that this transaction holds. A target that cannot get the
	// same lock is in the same database, whatever the URLs look like.
	lock   int64
	schema string
}

func openPostgresSource(ctx context.Context, config *pgx.ConnConfig) (*postgresSource, error) {
	side, err := openPostgres(ctx, config, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	if err != nil {
		return nil, err
	}
	s := &postgresSource{postgresSide: side, lock: rand.Int64()}
	err = s.Value(ctx, &s.schema, "SELECT coalesce(CAST(current_schema() AS text), '') FROM pg_advisory_xact_lock($1)", s.lock)
	if err != nil {
		side.close()
		return nil, err
	}
	return s, nil
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
