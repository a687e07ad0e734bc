package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkLeftLog has SQLite check a database that somebody has left with its log: a process that was killed, or who put
// another file in its place. SQLite cannot tell, and writes whatever the log holds into the file.
func (f *databaseFile) checkLeftLog(ctx context.Context) error {
	real, err := filepath.EvalSymlinks(f.path)
	if err == nil {
		real, err = filepath.Abs(real) // for whoever reads of it
	}
	if err != nil {
		return nil // there is no database: SQLite begins a new one, and deletes the log
	}
	database, err := os.Stat(real)
	if err != nil || database.Size() == 0 {
		return nil
	}
	log, err := os.Stat(real + "-wal")
	if err != nil || log.Size() == 0 {
		return nil
	}
	if indexInUse(real + "-shm") {
		// Whoever has it open may just come or go: then one of the three says so.
		if !databaseInUse(real) && indexInUse(real+"-shm") {
			return fmt.Errorf("beside %s is the -wal of another file, which a process has open that was in its place before: "+
				"stop that process, move %s-wal and %s-shm away if they are still there, and start again", real, real, real)
		}
		return nil
	}
	f.logger().Info("checking the database, since a write-ahead log was left: this takes longer the larger it is",
		"file", f.path, "bytes", database.Size(), "log_bytes", log.Size())
	err = f.quickCheck(ctx)
	if !isDamage(err) && !errors.Is(err, errMalformed) {
		return err
	}
	f.refused = fmt.Errorf("%s and its -wal are malformed together (%v): if the file was restored, the log is not its own: move %s-wal and %s-shm away and start again; "+
		"otherwise restore a backup", real, err, real, real)
	return f.refused
}

var errMalformed = errors.New("quick_check")

// quickCheck has SQLite check the file (sqlite.org/pragma.html#pragma_quick_check). It uses a connection that cannot write:
// another one would write the log into the file when it is closed.
func (f *databaseFile) quickCheck(ctx context.Context) error {
	db, err := sql.Open("sqlite", sqliteReadOnlyDSN(f.uri))
	if err != nil {
		return err
	}
	defer db.Close()
	var found string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return classify(err)
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", errMalformed, strings.TrimPrefix(found, "*** in database main ***\n"))
	}
	return nil
}
