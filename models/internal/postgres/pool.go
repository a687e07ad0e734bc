package postgres

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/models/internal/dberr"
)

// Pool is the connection pool of PostgreSQL, below GORM (gorm.ConnPool). Frequent statements use pgx itself: database/sql would convert
// every value, which takes a third of a list's time, and would start a goroutine for each query with a deadline.
type Pool struct{ *sql.DB }

func (p Pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	var tag pgconn.CommandTag
	err := p.WithConn(ctx, func(c *pgx.Conn) (err error) {
		tag, err = c.Exec(ctx, query, args...)
		return err
	})
	return sqldriver.RowsAffected(tag.RowsAffected()), err
}

// WithConn runs f on a connection of the pool. A dead connection leaves the pool, and f runs again on another one if nothing of the
// statement was sent: what was sent may have happened.
func (p Pool) WithConn(ctx context.Context, f func(c *pgx.Conn) error) (err error) {
	for range 3 {
		var conn *sql.Conn
		conn, err = p.Conn(ctx)
		if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, dberr.ErrBusy) && !errors.Is(err, dberr.ErrUnreachable) {
			return fmt.Errorf("%w: %w", dberr.ErrBusy, err) // no connection in time
		}
		if err != nil {
			return err
		}
		rawErr := conn.Raw(func(driver any) error {
			c := driver.(*stdlib.Conn).Conn()
			if err = f(c); err != nil && c.IsClosed() {
				return sqldriver.ErrBadConn
			}
			return nil
		})
		conn.Close()
		if err == nil {
			return rawErr // Raw can fail before it runs f
		}
		// With default_query_exec_mode=exec pgx says "conn closed", and that nothing was sent, also of a response that was cut off.
		if !pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) || rawErr == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// configure ties a connection to the plans for which the indexes were made. Between two autovacuums of a table that grows fast the planner
// believes in old statistics. It then sorts what a bitmap scan finds, or compiles the query, which takes two to ten times as long. All our
// statements look up by index, so nothing is lost.
//
// The server also ends a transaction that is idle for longer than a call may take, because a frozen instance would otherwise keep its
// locks, and checks as often whether the machine of the instance is still there. No statement waits for a lock for longer than half of
// timeout, so that a locked table costs no connection.
//
// Behind PgBouncer the settings reach some server connection, not always ours. An engine that has only PostgreSQL's protocol may not know
// them; that is no reason to fail.
func configure(ctx context.Context, c *pgx.Conn, timeout time.Duration) error {
	idle := max(minIdle, 2*timeout)
	_, err := c.Exec(ctx, fmt.Sprintf(`
		SET jit = off; SET enable_bitmapscan = off; SET enable_sort = off; SET plan_cache_mode = force_generic_plan;
		SET lock_timeout = %d; SET idle_in_transaction_session_timeout = %d;
		SET tcp_keepalives_idle = %d; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3`,
		max(1, timeout.Milliseconds()/2), idle.Milliseconds(), int64(idle/time.Second)),
		pgx.QueryExecModeSimpleProtocol)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && !c.IsClosed() {
		return nil
	}
	return err
}

// minIdle is the shortest limit of an idle transaction. Goroutines can be late on a busy machine.
const minIdle = 5 * time.Second

// Epoch is the zero of PostgreSQL's timestamptz, in microseconds since 1970.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
