package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/schema"
	"worldevents/models/internal/sqlite"
)

// inspectSQLite looks at the folder, the file and its log, and then into the database.
//
// It must not open the file in a way that changes it. The first connection to a file with a log and without an
// index would write the log into the file. So inspectSQLite opens the file only in one of the modes of
// readOnlyMode, and looks again if a service started or stopped meanwhile.
func inspectSQLite(ctx context.Context, path string, timeout time.Duration) Inspection {
	var found Inspection
	file := sqlite.FileOf(path)
	if file == "" {
		found.add(Fault, "DATABASE_URL", "the file is on another machine")
		return found
	}
	if absolute, err := filepath.Abs(file); err == nil {
		file = absolute
	}
	inspectFolder(&found, filepath.Dir(file))
	real := sqlite.RealFile(file) // SQLite keeps the log beside it
	if err := sqlite.RefuseLogWithoutFile(real); err != nil {
		found.add(Fault, file, "%v", err)
		return found
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		found.add(Warning, file, "there is no database: if there was one, put its files back or restore a backup. migrate makes an empty one, and so does serve without REQUIRE_DATABASE")
		return found
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a file")
	}
	if err != nil {
		found.add(Fault, file, "%s", dberr.RootCause(err))
		return found
	}
	inspectRights(&found, file, real)
	for {
		mode := readOnlyMode(real)
		if mode == "" {
			found.add(Warning, file, "a -wal without a -shm is beside it: the process that wrote it was killed, or it was copied here. Not looked into: the first connection takes the -wal in")
			return found
		}
		inside := inspectFile(ctx, file, path, url.Values{
			"mode": {"ro"}, mode: {"1"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", timeout.Milliseconds()/2)},
		})
		if readOnlyMode(real) == mode || ctx.Err() != nil { // otherwise somebody has opened or closed the file meanwhile
			inside.Findings = append(found.Findings, inside.Findings...)
			return inside
		}
	}
}

// inspectRights says who can read and write the files. real is the file to which a symbolic link leads.
func inspectRights(found *Inspection, file, real string) {
	if shared := sqlite.SharedFiles(file); len(shared) > 0 {
		found.add(Warning, file, "other users of this machine can read or write the database: chmod 600 %s", strings.Join(shared, " "))
	}
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		if err := sqlite.MayWrite(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			found.add(Fault, name, "this user may not write it: %s", dberr.RootCause(err))
		}
	}
	if info, err := os.Stat(real + "-wal"); err == nil && info.Size() > 64<<20 {
		found.add(Warning, real+"-wal", "the write-ahead log has %d MB: another process reads an old state, or nobody serves", info.Size()>>20)
	}
}

// inspectFolder looks at the folder, in which SQLite makes files beside the database, and at the room on its
// disk.
func inspectFolder(found *Inspection, folder string) {
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = errors.New("is not a folder")
	}
	if err == nil {
		err = sqlite.MayWrite(folder)
	}
	if err != nil {
		found.add(Fault, folder, "SQLite makes files beside the database, and cannot here: %s", dberr.RootCause(err))
		return
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		found.add(Warning, folder, "other users of this machine can replace files in it: chmod go-w %s", folder)
	}
	const mb = 1 << 20
	free, err := sqlite.DiskLeft(folder)
	switch {
	case err != nil:
		found.add(Warning, folder, "the room left is not known: %s", dberr.RootCause(err))
	case free < 100*mb:
		found.add(Fault, folder, "the disk has %d MB left", free/mb)
	case free < 1000*mb:
		found.add(Warning, folder, "the disk has %d MB left", free/mb)
	default:
		found.add(Fine, folder, "the disk has %d MB left", free/mb)
	}
}

// readOnlyMode is the parameter with which SQLite reads the file and makes no other
// (sqlite.org/c3ref/open.html#urifilenamesinsqlite3open), or "" if there is none.
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

// inspectFile looks into the database.
func inspectFile(ctx context.Context, file, path string, parameters url.Values) (found Inspection) {
	conn, err := sqlite.OpenConn(ctx, path, parameters)
	if err != nil {
		found.add(Fault, file, "%s", dberr.RootCause(err))
		return found
	}
	defer conn.Close()
	i := sqliteInspection{&found, file, conn}
	if i.schema(ctx) {
		i.integrity(ctx)
	}
	return found
}

// sqliteInspection looks into a file.
type sqliteInspection struct {
	*Inspection
	file string
	conn sqlite.Conn
}

// texts returns the rows of a query for one text, and reports whether that succeeded. If not, it adds a Fault.
func (i sqliteInspection) texts(ctx context.Context, query string) (texts []string, ok bool) {
	texts, err := i.conn.Texts(ctx, query)
	if err != nil {
		i.add(Fault, i.file, "%s", dberr.RootCause(err))
	}
	return texts, err == nil
}

// schema looks at tables and indexes. It reports whether there are tables of this program.
func (i sqliteInspection) schema(ctx context.Context) bool {
	objects, ok := i.texts(ctx, "SELECT name FROM sqlite_schema")
	if !ok {
		return false
	}
	if !i.judge(ctx, i.file, schema.SQLite, i.conn.Value) {
		return false
	}
	for _, index := range inspectedIndexes {
		if !slices.Contains(objects, index) {
			i.add(Fault, i.file, "the index %s is missing", index)
		}
	}
	return true
}

// integrity has SQLite check all pages (sqlite.org/pragma.html#pragma_integrity_check) and look for rows that
// refer to nothing. The check reads the whole file, so it may take minutes.
func (i sqliteInspection) integrity(ctx context.Context) {
	problems, ok := i.texts(ctx, "PRAGMA integrity_check(5)")
	switch {
	case !ok:
		return
	case slices.Equal(problems, []string{"ok"}):
		i.add(Fine, i.file, "integrity")
	default:
		i.add(Fault, i.file, "the file is damaged: %s", strings.Join(problems, "; "))
	}
	switch broken, err := i.conn.BrokenReferences(ctx); {
	case err != nil:
		i.add(Fault, i.file, "%s", dberr.RootCause(err))
	case len(broken) > 0:
		i.add(Fault, i.file, "%s", strings.Join(broken, "; "))
	default:
		i.add(Fine, i.file, "foreign keys")
	}
	i.count(ctx, i.file, i.conn.Value)
}
