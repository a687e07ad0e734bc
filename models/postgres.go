package models

import (
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"worldevents/models/internal/postgres"
	"worldevents/models/internal/schema"
)

func postgresDialect(text string, timeout time.Duration) (dialect, error) {
	server, err := postgres.New(text, timeout)
	if err != nil {
		return dialect{}, err
	}
	return dialect{
		name:          "postgres",
		server:        server,
		goose:         goose.DialectPostgres,
		probe:         probePostgres,
		writableQuery: "SELECT NOT CAST(current_setting('transaction_read_only') AS boolean)",
		oldSchemaQuery: `SELECT count(*) > 0 AND NOT bool_or(attname = 'skeleton') FROM pg_attribute
			WHERE attrelid = to_regclass('users') AND attnum > 0`, // a view of information_schema takes 5 ms to plan
		triggersQuery: `SELECT count(*) FROM pg_trigger WHERE tgrelid IN (to_regclass('events'), to_regclass('rsvps'))
			AND tgname LIKE 'changes\_%' AND tgenabled = 'A'`,
		triggers:          11,
		hasTableQuery:     "SELECT to_regclass(?) IS NOT NULL",
		migrationSettings: noLimits + "SET LOCAL lock_timeout = '200ms';\n",
		connect:           server.OpenPool,
		gorm: func(db *sql.DB) gorm.Dialector {
			return gormpostgres.New(gormpostgres.Config{Conn: postgres.Pool{DB: db}})
		},
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
			if err := scan(tx.Raw("SELECT pg_try_advisory_xact_lock(?)", schema.MigrationLock), &locked); err != nil || !locked {
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

// checkPostgres refuses a server or a database that the service cannot work with.
func checkPostgres(tx *gorm.DB) error {
	var version int
	var encoding string
	err := scan(tx.Raw("SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding')"), &version, &encoding)
	if err != nil {
		return err
	}
	return postgres.Supported(version, encoding)
}
