package models

import (
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
	_ "modernc.org/sqlite" // the driver "sqlite", without cgo

	"worldevents/models/internal/batch"
	"worldevents/models/internal/sqlite"
)

func sqliteDialect(file *sqlite.File, timeout time.Duration) dialect {
	return dialect{
		name:           "sqlite",
		goose:          goose.DialectSQLite3,
		isFile:         true,
		writableQuery:  "SELECT true",
		oldSchemaQuery: "SELECT count(*) > 0 AND max(name = 'skeleton') = 0 FROM pragma_table_info('users')",
		triggersQuery:  "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('events', 'rsvps') AND name LIKE 'changes\\_%' ESCAPE '\\'",
		triggers:       7,
		hasTableQuery:  "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = ?",
		connect:        func() (*sql.DB, error) { return file.OpenPool(timeout / 2) }, // the other half is for waiting in this process,
		gorm:           sqlite.NewDialector,
		blob:           "BLOB",
		time:           "text",
		joinUsernames:  "group_concat(username, char(10))",
		moments:        sqliteMoments,
		randomID:       "lower(printf('%s-%s-%s-%s-%s', hex(randomblob(4)), hex(randomblob(2)), hex(randomblob(2)), hex(randomblob(2)), hex(randomblob(6))))",
		anyOf:          "IN (SELECT value FROM json_each(?))",
		callers:        "(SELECT key + 1 AS n, value ->> 0 AS user_id, value ->> 1 AS session_id FROM json_each(?))",
		parameters:     func(query string) string { return query },
		rows:           rowsInSQLite,
		snapshot:       snapshotInSQLite,
		create:         createInSQLite,
		withMigrationLock: func(tx *gorm.DB, fn func() error) error {
			// Each migration is a transaction with the write lock, so of several processes one applies it and the
			// others fail on what is already there; then there is nothing left to do.
			var err error
			for range 10 {
				if err = fn(); err == nil || tx.Statement.Context.Err() != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			return err
		},
	}
}

// openSQLite makes the pool of the one connection that writes, and that of readers.
func (s *Store) openSQLite() (err error) {
	if s.reader, err = newPool(s.dialect, sqlite.Readers); err != nil {
		return err
	}
	w, err := s.file.OpenWriting(s.timeout/2, s.maxWait/4, s.reader.limiter.(batch.Connections))
	if err != nil {
		return err
	}
	g, err := openGORM(w.GORM)
	s.writes, s.writer, s.wal = w.Batches, pool{gorm: g, sql: w.DB, limiter: w.Batches}, w.WAL
	return err
}

func rowsInSQLite(tx *gorm.DB, query string, args []any, each func(*listRow) (more bool)) error {
	rows, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context, query, args...)
	return eachRowOfSQLite(rows, err, each)
}

// eachRowOfSQLite calls each with the rows of a query, until it wants no more. It closes them.
func eachRowOfSQLite(rows *sql.Rows, err error, each func(*listRow) (more bool)) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var row listRow
	into := []any{&row.id, &row.at}
	for i := range row.texts {
		into = append(into, (*sql.RawBytes)(&row.texts[i]))
	}
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

func snapshotInSQLite(tx *gorm.DB, fn func(rows rowsFunc) error) error {
	ctx := tx.Statement.Context
	snapshot, err := sqlite.BeginRead(ctx, tx.Statement.ConnPool)
	if err != nil {
		return err
	}
	defer snapshot.Rollback()
	return fn(func(query string, args []any, each func(*listRow) (more bool)) error {
		rows, err := snapshot.QueryContext(ctx, query, args...)
		return eachRowOfSQLite(rows, err, each)
	})
}
