package sqlite

import (
	"fmt"
	"net/url"
	"time"
)

// Readers is the size of the pool of readers. There is one writer, because SQLite has one write lock: a queue in this process is fair and
// never fails, while many connections that want the lock fail with SQLITE_BUSY.
const Readers = 8

// dsnOf opens the file of a path as in DATABASE_URL, with parameters of SQLite's URIs and of the driver.
func dsnOf(path string, parameters url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + parameters.Encode()
}

// DSN opens a file. Its connections wait no longer than busy for other processes and for each other.
func DSN(path string, busy time.Duration) string {
	return dsnOf(path, url.Values{
		"mode":         {"rw"},        // find makes the file
		"_txlock":      {"immediate"}, // else a transaction that reads first fails when it wants to write
		"_time_format": {"sqlite"},
		"_timezone":    {"UTC"},
		"_pragma":      {fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds())},
	})
}

// settings are for each connection, once it is known to have the right file: they open its log, and the first connection writes to the
// file. Every commit waits for the disk (synchronous = FULL), since an acknowledged write must survive a loss of power. The WAL copies the
// log (wal_autocheckpoint = 0): a commit after a long read would copy all of it, and writes would wait for seconds.
const settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = 1; PRAGMA wal_autocheckpoint = 0"
