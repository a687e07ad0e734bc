package models

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"
	_ "modernc.org/sqlite" // the driver "sqlite", without cgo
)

// sqliteReaders is the size of the pool of readers. Writers are one: SQLite has one write lock, and a queue in this
// process is fair and never fails, where many connections that want the lock fail with SQLITE_BUSY.
const sqliteReaders = 8

func sqliteDialect(path string, timeout time.Duration) dialect {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{
		"_txlock":      {"immediate"}, // else a transaction that reads first fails when it wants to write
		"_time_format": {"sqlite"},
		"_timezone":    {"UTC"},
		"_texttotime":  {"1"},
		"_pragma": {
			// Other processes on the same file. The other half of the time is for waiting in this one.
			fmt.Sprintf("busy_timeout(%d)", timeout.Milliseconds()/2),
			"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		},
	}.Encode()
	return dialect{
		name:          "sqlite",
		goose:         goose.DialectSQLite3,
		isFile:        true,
		writableQuery: "SELECT true",
		open: func(n int) (pool, error) {
			db, err := sql.Open("sqlite", dsn)
			if err != nil {
				return pool{}, err
			}
			p, err := newPool(sqliteDialector{db}, db, n)
			p.conn = &preparing{DB: db}
			if n == 1 {
				// A write is over in the time of a sync; watching over it would take a goroutine each time.
				p.limiter, p.enforceDeadline = newSerialWriter(), false
			}
			return p, err
		},
		bind:          func(query string) string { return query },
		timestamp:     "?",
		joinUsernames: "group_concat(username, char(10))",
		anyOf:         "IN (SELECT value FROM json_each(?))",
		arrayArg: func(ids []string) any {
			text, _ := json.Marshal(ids) // of strings: cannot fail
			return string(text)
		},
		exec: func(t try, query string, args []any) (int64, error) {
			res, err := t.conn.ExecContext(t.ctx, query, args...)
			if err != nil {
				return 0, err
			}
			return res.RowsAffected()
		},
		row: func(t try, query string, args []any) scanner {
			return t.conn.QueryRowContext(t.ctx, query, args...)
		},
		rows:   rowsInSQLite,
		create: createInSQLite,
		withMigrationLock: func(ctx context.Context, _ *sql.DB, fn func() error) error {
			// Each migration is a transaction with the write lock, so of several processes one applies it and the
			// others fail on what is already there; then there is nothing left to do.
			var err error
			for range 10 {
				if err = fn(); err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			return err
		},
	}
}

// preparing has SQLite compile each statement once for each connection. The statements of this package are few.
type preparing struct {
	*sql.DB
	known sync.Map // *sql.Stmt by text
}

// prepared is nil where preparing fails: running the text then fails in the same way.
func (p *preparing) prepared(ctx context.Context, query string) *sql.Stmt {
	if known, ok := p.known.Load(query); ok {
		return known.(*sql.Stmt)
	}
	made, err := p.DB.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	if known, raced := p.known.LoadOrStore(query, made); raced {
		made.Close()
		return known.(*sql.Stmt)
	}
	return made
}

func (p *preparing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := p.prepared(ctx, query); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return p.DB.ExecContext(ctx, query, args...)
}

func (p *preparing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := p.prepared(ctx, query); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return p.DB.QueryContext(ctx, query, args...)
}

func (p *preparing) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := p.prepared(ctx, query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return p.DB.QueryRowContext(ctx, query, args...)
}

func rowsInSQLite(t try, query string, args []any, each func(*listRow) (more bool)) error {
	rows, err := t.conn.QueryContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var row listRow
	into := []any{(*sql.RawBytes)(&row.id), &row.at, (*sql.RawBytes)(&row.name), (*sql.RawBytes)(&row.description), (*sql.RawBytes)(&row.usernames)}
	for rows.Next() {
		if err := rows.Scan(into[:len(columns)]...); err != nil {
			return err
		}
		if !each(&row) {
			break
		}
	}
	return rows.Err()
}

func createInSQLite(t try, e Event) error {
	now := t.writeTime()
	tx, err := t.pool.sql.BeginTx(t.ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	t.conn = tx
	added, err := t.exec(`
		INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
		SELECT ?, ?, id, ?, ?, ?, ? FROM users WHERE id = ?`,
		e.ID, e.WorldID, e.Name, e.Description, e.ScheduledAt, now, e.CreatorID)
	if err == nil && added == 0 {
		return ErrNoUser
	}
	if err != nil {
		return err
	}
	_, err = t.exec(`
		INSERT INTO rsvps (event_id, user_id, username, created_at)
		SELECT ?, id, username, ? FROM users WHERE id = ?`,
		e.ID, now, e.CreatorID)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// sqliteDialector is what GORM needs to speak SQLite through any driver. The ready-made one links a second SQLite,
// in C, into every binary that is built with cgo.
type sqliteDialector struct{ db *sql.DB }

func (d sqliteDialector) Name() string { return "sqlite" }

func (d sqliteDialector) Initialize(db *gorm.DB) error {
	db.ConnPool = d.db
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{})
	return nil
}

func (d sqliteDialector) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) { w.WriteByte('?') }

func (d sqliteDialector) QuoteTo(w clause.Writer, name string) {
	w.WriteByte('"')
	w.WriteString(name)
	w.WriteByte('"')
}

func (d sqliteDialector) Explain(statement string, _ ...any) string { return statement }

func (d sqliteDialector) DefaultValueOf(*schema.Field) clause.Expression {
	return clause.Expr{SQL: "NULL"}
}

// The schema comes from migrations/sqlite, never from GORM.
func (d sqliteDialector) DataTypeOf(*schema.Field) string { return "" }

func (d sqliteDialector) Migrator(db *gorm.DB) gorm.Migrator {
	return migrator.Migrator{Config: migrator.Config{DB: db, Dialector: d}}
}
