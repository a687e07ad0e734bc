package models

import (
	"database/sql"
	"errors"
	"time"

	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

var sqliteDialect = dialect{
	blob:      "BLOB",
	usernames: joinedUsernames("group_concat(username, char(10))", "char(10)"),
	randomID:  "lower(printf('%s-%s-%s-%s-%s', hex(randomblob(4)), hex(randomblob(2)), hex(randomblob(2)), hex(randomblob(2)), hex(randomblob(6))))",
	anyOf:     "IN (SELECT value FROM json_each(?))",
	callers:   "(SELECT key + 1 AS n, value ->> 0 AS user_id, value ->> 1 AS session_id FROM json_each(?))",
	questions: "(SELECT key + 1 AS n, value ->> 0 AS saw, value ->> 1 AS world FROM json_each(?))",
	moments:   sqliteMoments,
}

// openSQLite prepares the connection that writes, and the pool of readers. In WAL mode neither waits for the other (sqlite.org/wal.html).
func (s *Store) openSQLite(path string) (err error) {
	s.file = sqlite.NewFile(path)
	db := sqliteDatabase{s.file, s.options.Timeout / 2} // the other half is for the queue in this process
	s.database, s.dialect, s.schema.database = db, sqliteDialect, schema.SQLite
	if s.reader, err = db.newPool(sqlite.Readers); err != nil {
		return err
	}
	w, err := s.file.OpenWriting(db.busy, s.options.MaxWait/4)
	if err != nil {
		return err
	}
	s.writes, s.wal = w.Batches, w.WAL
	s.writer, err = newPool(w.DB, w.GORM, w.Batches)
	s.writer.enforceDeadline = false
	s.writer.timings, s.reader.timings = newTimings("sqlite_write"), newTimings("sqlite_read")
	return err
}

// sqliteDatabase is a SQLite file. Its connections wait no longer than busy for other processes and for each other.
type sqliteDatabase struct {
	file *sqlite.File
	busy time.Duration
}

func (d sqliteDatabase) newPool(n int) (pool, error) {
	db, err := d.file.OpenPool(d.busy)
	if err != nil {
		return pool{}, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return newPool(db, sqlite.NewDialector(db), batch.NewConnections(n))
}

// migrate implements database. Each migration is a transaction with the write lock. Of several processes that migrate at once, one applies
// a migration and the others fail on what already exists. They try again, and then find nothing left to do.
func (d sqliteDatabase) migrate(tx *gorm.DB, fn func() error) (err error) {
	for range 10 {
		if err = fn(); err == nil || tx.Statement.Context.Err() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func (d sqliteDatabase) note(err error) {
	if errors.Is(err, ErrUnwritable) {
		d.file.Fail(err)
	}
}

// ready implements database. After a failed write, as to a full disk, one has to succeed first.
func (d sqliteDatabase) ready(tx *gorm.DB) error {
	if err := d.file.Ready(tx.Statement.Context); err != nil {
		return err
	}
	var one int
	return dberr.Classify(scan(tx.Raw("SELECT 1"), &one))
}

// rows implements database. The texts are RawBytes, valid until the next row, which spares a copy of each.
func (sqliteDatabase) rows(tx *gorm.DB, query string, args []any, each func(*ListedEvent) (more bool)) error {
	rows, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var row ListedEvent
	into := []any{&row.ID, &row.ScheduledAt, (*sql.RawBytes)(&row.Name), (*sql.RawBytes)(&row.Description), (*sql.RawBytes)(&row.Usernames)}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if !each(&row) {
			break
		}
	}
	return rows.Err()
}
