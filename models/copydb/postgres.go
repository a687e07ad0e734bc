package copydb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/schema"
)

// postgresSide is a transaction in a PostgreSQL database, on a connection of its own. Both sides of a copy are
// one: the source for its snapshot, the target so that all rows appear together.
type postgresSide struct {
	conn *pgx.Conn
}

func connectPostgres(ctx context.Context, config *pgx.ConnConfig) (postgresSide, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	return postgresSide{conn}, err
}

// openPostgres connects and begins a transaction that no timeout of the server or the role ends: a copy may
// take hours.
func openPostgres(ctx context.Context, config *pgx.ConnConfig, begin string) (postgresSide, error) {
	s, err := connectPostgres(ctx, config)
	if err != nil {
		return s, err
	}
	if err := s.exec(ctx, begin+"; "+schema.NoLimits); err != nil {
		s.close()
		return postgresSide{}, err
	}
	return s, nil
}

// exec runs statements without parameters.
func (s postgresSide) exec(ctx context.Context, statements string) error {
	return withDetail(s.conn.PgConn().Exec(ctx, statements).Close())
}

// withDetail adds the server's detail to an error, which says which row it was.
func withDetail(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Detail != "" {
		return fmt.Errorf("%w: %s", err, pg.Detail)
	}
	return err
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

func (s postgresSide) columns(ctx context.Context, table string) (columns []copyColumn, err error) {
	rows, err := s.conn.Query(ctx, `
		SELECT CAST(attname AS text), format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table)
	if err != nil {
		return nil, err
	}
	var name, declared string
	_, err = pgx.ForEachRow(rows, []any{&name, &declared}, func() error {
		column, err := kindOf(postgresKinds, table, name, declared)
		columns = append(columns, column)
		return err
	})
	return columns, err
}

// read has the server send the rows as COPY in the binary format: that is quicker than a query, and gives each
// value as copyRow has it.
func (s postgresSide) read(ctx context.Context, from string, columns []copyColumn, order string, each func(copyRow) error) error {
	if order != "" {
		order = " ORDER BY " + order
	}
	parser := &copyParser{each: each}
	_, err := s.conn.PgConn().CopyTo(ctx, parser, fmt.Sprintf("COPY (SELECT %s FROM %s%s) TO STDOUT (FORMAT binary)", columnList(columns), from, order))
	return err
}
