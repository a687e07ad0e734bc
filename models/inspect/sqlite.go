package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

// sqlite looks at the folder, the file and its log, and then into the database. It must not change the file by opening it: the first
// connection to a file with a log and without an index would write the log into the file. So it uses only the modes of readOnlyMode, and
// looks again if a service started or stopped meanwhile.
func (i *inspector) sqlite(ctx context.Context, path string, timeout time.Duration) {
	if sqlite.FileOf(path) == "" {
		i.add(Fault, "the file is on another machine")
		return
	}
	file := sqlite.RealFile(sqlite.FileOf(path)) // SQLite keeps the log beside it
	i.about = filepath.Dir(file)
	i.folder()
	i.about = file
	if i.failed(sqlite.RefuseLogWithoutFile(file)) {
		return
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		i.add(Warning, "there is no database: if there was one, put its files back or restore a backup. migrate makes an empty one, and so does serve without REQUIRE_DATABASE")
		return
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a file")
	}
	if i.failed(err) {
		return
	}
	if info, err := os.Stat(file + "-wal"); err == nil && info.Size() > 64<<20 {
		i.add(Warning, "its write-ahead log has %d MB: another process reads an old state, or nobody serves", info.Size()>>20)
	}
	for {
		inside, mode := &inspector{about: file}, readOnlyMode(file)
		if mode == "" {
			i.add(Warning, "a -wal without a -shm is beside it: the process that wrote it was killed, or it was copied here. Not looked into: the first connection takes the -wal in")
			return
		}
		inside.file(ctx, path, url.Values{"mode": {"ro"}, mode: {"1"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", timeout.Milliseconds()/2)}})
		if readOnlyMode(file) == mode || ctx.Err() != nil { // otherwise somebody has opened or closed the file meanwhile
			i.found.Findings, i.found.Rows = append(i.found.Findings, inside.found.Findings...), inside.found.Rows
			return
		}
	}
}

// folder looks at the folder, in which SQLite makes files beside the database, and at the room on its disk.
func (i *inspector) folder() {
	info, err := os.Stat(i.about)
	if err == nil && !info.IsDir() {
		err = errors.New("is not a folder")
	}
	if err == nil {
		err = sqlite.MayWrite(i.about)
	}
	if i.failed(err) {
		return
	}
	const mb = 1 << 20
	free, err := sqlite.DiskLeft(i.about)
	level := Fine
	switch {
	case i.failed(err):
		return
	case free < 100*mb:
		level = Fault
	case free < 1000*mb:
		level = Warning
	}
	i.add(level, "the disk has %d MB left", free/mb)
}

// readOnlyMode is the parameter with which SQLite makes no file (sqlite.org/c3ref/open.html#urifilenamesinsqlite3open), "" without any.
func readOnlyMode(file string) string {
	exists := func(name string) bool { _, err := os.Stat(name); return err == nil }
	switch wal, shm := exists(file+"-wal"), exists(file+"-shm"); {
	case wal && shm: // a process has the file open, and its index can be read
		return "readonly_shm"
	case !wal: // no process has it open, and the file has everything
		return "immutable"
	}
	return ""
}

// file looks into the database. Checking all pages (sqlite.org/pragma.html#pragma_integrity_check) may take minutes.
func (i *inspector) file(ctx context.Context, path string, parameters url.Values) {
	conn, err := sqlite.OpenConn(ctx, path, parameters)
	if i.failed(err) {
		return
	}
	defer conn.Close()
	i.value = conn.Value
	if !i.tables(ctx, schema.SQLite, "SELECT CASE WHEN count(*) = 0 THEN 'the index %[1]s is missing' ELSE '' END FROM sqlite_schema WHERE name = '%[1]s'") {
		return
	}
	if i.isFine(ctx, `SELECT CASE WHEN group_concat(integrity_check) = 'ok' THEN '' ELSE 'the file is damaged: ' || group_concat(integrity_check, '; ') END
		FROM (SELECT integrity_check FROM pragma_integrity_check LIMIT 5)`) {
		i.add(Fine, "integrity")
	}
	if i.isFine(ctx, sqlite.BrokenReferences) {
		i.add(Fine, "foreign keys")
	}
	i.count(ctx)
}
