package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

func postgresDialect(url string) (dialect, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return dialect{}, errors.New("not a PostgreSQL URL that can be used") // err may quote the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 2 * time.Second
	}
	return dialect{
		name:  "postgres",
		goose: goose.DialectPostgres,
		ready: "SELECT NOT CAST(current_setting('transaction_read_only') AS boolean)",
		open: func(n int) (pool, error) {
			db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(keepPlans))
			return newPool(postgres.New(postgres.Config{Conn: db}), db, n)
		},
		joined: `string_agg(username, E'\n')`,
		create: createInPostgres,
		exclusively: func(ctx context.Context, db *sql.DB, fn func() error) error {
			// The lock belongs to a transaction, not to a session, so that it also works behind PgBouncer.
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
				return fmt.Errorf("wait for other instances: %w", err)
			}
			return fn()
		},
	}, nil
}

// keepPlans ties a connection to the plans that the indexes were made for. Between autovacuums of a table that grows
// fast the planner would rather sort what a bitmap scan finds, or compile the query: two to ten times slower. Our
// statements look up by index, all of them, so nothing is lost. Behind PgBouncer this reaches some server connection
// or other, and an engine that is PostgreSQL by protocol alone may not know the settings: no reason to fail.
func keepPlans(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `
		SET jit = off; SET enable_bitmapscan = off; SET enable_sort = off; SET plan_cache_mode = force_generic_plan`,
		pgx.QueryExecModeSimpleProtocol)
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		return nil
	}
	return err
}

// createInPostgres needs one statement, so one round trip: foreign keys are checked at its end.
func createInPostgres(tx *gorm.DB, e Event) error {
	res := tx.Exec(`
		WITH creator AS (
			SELECT id, username FROM users WHERE id = ?
		), event AS (
			INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
			SELECT ?, ?, id, ?, ?, ?, ? FROM creator
			RETURNING id, created_at
		)
		INSERT INTO rsvps (event_id, user_id, username, created_at)
		SELECT event.id, creator.id, creator.username, event.created_at FROM event, creator`,
		e.CreatorID, e.ID, e.WorldID, e.Name, e.Description, e.ScheduledAt, e.CreatedAt)
	if res.Error == nil && res.RowsAffected == 0 {
		return ErrNoUser
	}
	return res.Error
}
