package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"sync"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
)

// Readers is the size of the pool of readers. Writers are one: SQLite has one write lock, and a queue in this
// process is fair and never fails, where many connections that want the lock fail with SQLITE_BUSY.
const Readers = 8

// readOnlyDSN is how a file is opened that must not change.
func readOnlyDSN(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&_pragma=busy_timeout(1000)"
}

// DSN is how a file is opened. Its connections wait for other processes, and for each other, no longer than busy.
func DSN(path string, busy time.Duration) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{
		"mode":         {"rw"},        // the file is made by createPrivate
		"_txlock":      {"immediate"}, // else a transaction that reads first fails when it wants to write
		"_time_format": {"sqlite"},
		"_timezone":    {"UTC"},
		"_pragma":      {fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds())},
	}.Encode()
}

// settings are those of each connection, once it is known to have the right file: they open its log, and the first
// connection of all writes to the file.
const settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = 1"

// dialector is GORM's own for SQLite. That asks for the version of SQLite when it starts, which here must not open
// the file yet: a database in memory tells the same. It imports a second SQLite, written in C, which builds without cgo
// leave out, and which no build uses.
type dialector struct {
	sqlite.Dialector
	pool gorm.ConnPool
}

// Initialize implements gorm.Dialector.
func (d dialector) Initialize(db *gorm.DB) error {
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer memory.Close()
	d.Conn = memory
	err = d.Dialector.Initialize(db)
	db.ConnPool = d.pool
	return err
}

// NewDialector has GORM use a pool of readers.
func NewDialector(db *sql.DB) gorm.Dialector {
	return dialector{pool: statements{db, new(sync.Map)}}
}

// BeginRead begins a transaction on a pool of readers, as GORM knows it, whose queries all see the file as it is at the first of them.
// It does not wait for the lock of writers.
func BeginRead(ctx context.Context, pool gorm.ConnPool) (*sql.Tx, error) {
	return pool.(statements).ConnPool.(*sql.DB).BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
}
