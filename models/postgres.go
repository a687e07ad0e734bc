package models

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// migrationLock is the advisory lock that one migrating instance holds.
const migrationLock = 0x776f726c64 // "world"

func postgresDialect(text string, timeout time.Duration) (dialect, error) {
	url := newPostgresURL(text, timeout)
	if _, err := url.parse(); err != nil {
		return dialect{}, err
	}
	health := &health{timeout: timeout}
	return dialect{
		name:          "postgres",
		url:           url,
		goose:         goose.DialectPostgres,
		probe:         probePostgres,
		writableQuery: "SELECT NOT CAST(current_setting('transaction_read_only') AS boolean)",
		beside: func(hear func(*pgconn.Notification)) (*connector, error) {
			return newConnector(url, hear, health)
		},
		oldSchemaQuery: `SELECT count(*) > 0 AND NOT bool_or(attname = 'skeleton') FROM pg_attribute
			WHERE attrelid = to_regclass('users') AND attnum > 0`, // a view of information_schema takes 5 ms to plan
		triggersQuery: `SELECT count(*) FROM pg_trigger WHERE tgrelid IN (to_regclass('events'), to_regclass('rsvps'))
			AND tgname LIKE 'changes\_%' AND tgenabled = 'A'`,
		triggers:          11,
		hasTableQuery:     "SELECT to_regclass(?) IS NOT NULL",
		migrationSettings: noLimits + "SET LOCAL lock_timeout = '200ms';\n",
		connect: func() (*sql.DB, error) {
			c, err := newConnector(url, nil, health)
			if err != nil {
				return nil, err
			}
			return sql.OpenDB(c), nil
		},
		timedOut:      health.doubt,
		gorm:          func(db *sql.DB) gorm.Dialector { return postgres.New(postgres.Config{Conn: pgxPool{db}}) },
		blob:          "bytea",
		check:         checkPostgres,
		time:          "timestamptz",
		joinUsernames: `string_agg(username, E'\n')`,
		moments:       postgresMoments,
		randomID:      "gen_random_uuid()",
		anyOf:         "= ANY (ARRAY (SELECT CAST(jsonb_array_elements_text(CAST(? AS jsonb)) AS uuid)))",
		callers: `(SELECT n, CAST(ids ->> 0 AS uuid) AS user_id, CAST(ids ->> 1 AS uuid) AS session_id
			FROM jsonb_array_elements(CAST(? AS jsonb)) WITH ORDINALITY AS given (ids, n))`,
		parameters:        numbered,
		rows:              rowsInPostgres,
		snapshot:          snapshotInPostgres,
		create:            createInPostgres,
		withMigrationLock: withAdvisoryLock,
	}, nil
}

// parsePostgres reads a URL and the files that it names, such as the one with passwords, as they are now.
func parsePostgres(url string, timeout time.Duration) (*pgx.ConnConfig, error) {
	if hasStrayAt(url) {
		return nil, errStrayAt
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("not a PostgreSQL URL that can be used") // err may quote the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = timeout
	}
	// Times and texts are read in these forms, whatever the database or the role has as its default.
	config.RuntimeParams["datestyle"] = "ISO"
	config.RuntimeParams["client_encoding"] = "UTF8"
	// pgx would keep notifications, which a pooler may pass on to anybody, until somebody asks for them.
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	return config, nil
}

// noLimits lifts the limits of time that a role or a database may have for the rest of a transaction: a migration that is
// ended by one of them would begin anew for ever, with its locks each time. What waits for a lock keeps all others waiting
// that come behind it, so that has a limit of ours.
const noLimits = `SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SELECT set_config('transaction_timeout', '0', true) WHERE current_setting('transaction_timeout', true) IS NOT NULL;
`

// withAdvisoryLock holds an advisory lock of a transaction, not of a session, so that it also works behind
// PgBouncer. Who waits holds nothing meanwhile: the waiting could take all of a small pool's connections, and the one
// that migrates needs two.
func withAdvisoryLock(tx *gorm.DB, fn func() error) error {
	for {
		var locked bool
		err := tx.Transaction(func(tx *gorm.DB) error {
			for statement := range strings.SplitAfterSeq(strings.TrimSpace(noLimits), ";") {
				if err := tx.Exec(statement).Error; err != nil {
					return err
				}
			}
			if err := scan(tx.Raw("SELECT pg_try_advisory_xact_lock(?)", migrationLock), &locked); err != nil || !locked {
				return err
			}
			return fn()
		})
		if err != nil || locked {
			return err
		}
		select {
		case <-tx.Statement.Context.Done():
			return tx.Statement.Context.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// probePostgres has the server write to its disk what leaves no trace: a temporary table of a few hundred kilobytes, taken
// back. A role that may not make one proves nothing, and passes.
func probePostgres(tx *gorm.DB) error {
	err := tx.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("CREATE TEMPORARY TABLE probe AS SELECT n FROM generate_series(1, 10000) n").Error; err != nil {
			return err
		}
		return errProbed
	})
	var pg *pgconn.PgError
	if errors.Is(err, errProbed) || errors.As(err, &pg) && pg.Code == "42501" {
		return nil
	}
	return err
}

// errProbed takes back a probe that has succeeded.
var errProbed = errors.New("probed")

// minPostgres is the oldest version that the service is tested with.
const minPostgres = 15

// checkPostgres refuses a server or a database that the service cannot work with.
func checkPostgres(tx *gorm.DB) error {
	var version int
	var encoding string
	err := scan(tx.Raw("SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding')"), &version, &encoding)
	if err != nil {
		return err
	}
	return supported(version, encoding)
}

// supported refuses, in words for the operator, a server that is too old, or a database that cannot hold every text.
// version is server_version_num, such as 150018 for 15.18.
func supported(version int, encoding string) error {
	switch {
	case version < minPostgres*10000:
		return fmt.Errorf("PostgreSQL %d is too old: version %d or newer is needed", version/10000, minPostgres)
	case encoding != "UTF8":
		return fmt.Errorf("the encoding of the database is %s: UTF8 is needed, as in CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}

// setPlannerOptions ties a connection to the plans that the indexes were made for. Between autovacuums of a table that
// grows fast the planner prefers to sort what a bitmap scan finds, or to compile the query, which is two to ten times
// slower. All our statements look up by index, so nothing is lost. Behind PgBouncer the settings reach some server
// connection or other. An engine that has only PostgreSQL's protocol may not know them, which is no reason to fail.
func setPlannerOptions(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `
		SET jit = off; SET enable_bitmapscan = off; SET enable_sort = off; SET plan_cache_mode = force_generic_plan`,
		pgx.QueryExecModeSimpleProtocol)
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		return nil
	}
	return err
}

// pgxPool is the connection pool of PostgreSQL, below GORM (gorm.ConnPool). What is hot runs on pgx itself: database/sql
// would convert every value (a third of a list's time) and start a goroutine for each query with a deadline.
type pgxPool struct{ *sql.DB }

// GetDBConn implements gorm.GetDBConnector.
func (p pgxPool) GetDBConn() (*sql.DB, error) { return p.DB, nil }

// ExecContext implements gorm.ConnPool. It runs a statement again only if nothing of it was sent.
func (p pgxPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	var tag pgconn.CommandTag
	err := p.withConn(ctx, func(c *pgx.Conn) (again bool, err error) {
		tag, err = c.Exec(ctx, query, args...)
		return pgconn.SafeToRetry(err), err
	})
	return sqldriver.RowsAffected(tag.RowsAffected()), err
}

// withConn runs f on a connection of the pool. A connection that turns out to be dead leaves the pool. If f says that
// it may be run again, it is, on another.
func (p pgxPool) withConn(ctx context.Context, f func(c *pgx.Conn) (again bool, err error)) (err error) {
	for range 3 {
		var conn *sql.Conn
		if conn, err = p.Conn(ctx); err != nil {
			return noConnection(err)
		}
		again := false
		rawErr := conn.Raw(func(driver any) error {
			c := driver.(*stdlib.Conn).Conn()
			if again, err = f(c); err != nil && c.IsClosed() {
				return sqldriver.ErrBadConn
			}
			return nil
		})
		conn.Close()
		if err == nil {
			return rawErr // Raw may fail without having run f
		}
		if !again || rawErr == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// noConnection wraps the error of a call that had no connection in time with ErrBusy.
func noConnection(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}
