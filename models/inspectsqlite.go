package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

func inspectSQLite(ctx context.Context, path string, timeout time.Duration) []Finding {
	var found inspection
	file := sqliteFile(path)
	if file == "" {
		found.add(Fault, "DATABASE_URL", "the file is on another machine")
		return found
	}
	inspectFolder(&found, filepath.Dir(file))
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		found.add(Warning, file, "there is no database yet: serve and migrate make one")
		return found
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a file")
	}
	if err != nil {
		found.add(Fault, file, "%s", rootCause(err))
		return found
	}
	inspectRights(&found, file)
	for {
		mode := readOnlyMode(file)
		if mode == "" {
			found.add(Warning, file, "a -wal without a -shm is beside it: the process that wrote it was killed, or it was copied here. Not looked into: the first connection takes the -wal in")
			return found
		}
		inside := inspectFile(ctx, file, "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+mode+fmt.Sprintf("&_pragma=busy_timeout(%d)", timeout.Milliseconds()/2))
		if readOnlyMode(file) == mode || ctx.Err() != nil { // else somebody has opened or closed it meanwhile
			return append(found, inside...)
		}
	}
}

// inspectRights says who can read and write the files.
func inspectRights(found *inspection, file string) {
	if shared := (&Store{file: &databaseFile{path: file}}).SharedFiles(); len(shared) > 0 {
		found.add(Warning, file, "other users of this machine can read or write the database: chmod 600 %s", strings.Join(shared, " "))
	}
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		if err := mayWrite(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			found.add(Fault, name, "this user may not write it: %s", rootCause(err))
		}
	}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		if info, err := os.Stat(target + "-wal"); err == nil && info.Size() > 64<<20 {
			found.add(Warning, target+"-wal", "the write-ahead log has %d MB: another process reads an old state, or nobody serves", info.Size()>>20)
		}
	}
}

// inspectFolder looks at the folder, where SQLite makes files beside the database, and at the room that its disk has left.
func inspectFolder(found *inspection, folder string) {
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = errors.New("is not a folder")
	}
	if err == nil {
		err = mayWrite(folder)
	}
	if err != nil {
		found.add(Fault, folder, "SQLite makes files beside the database, and cannot here: %s", rootCause(err))
		return
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		found.add(Warning, folder, "other users of this machine can replace files in it: chmod go-w %s", folder)
	}
	const mb = 1 << 20
	free, err := diskLeft(folder)
	switch {
	case err != nil:
		found.add(Warning, folder, "the room left is not known: %s", rootCause(err))
	case free < 100*mb:
		found.add(Fault, folder, "the disk has %d MB left", free/mb)
	case free < 1000*mb:
		found.add(Warning, folder, "the disk has %d MB left", free/mb)
	default:
		found.add(Fine, folder, "the disk has %d MB left", free/mb)
	}
}

// readOnlyMode is how to open the file so that SQLite makes none, or "" if there is no such way. The log is beside the file
// that a symbolic link leads to.
func readOnlyMode(file string) string {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	exists := func(name string) bool { _, err := os.Stat(name); return err == nil }
	switch wal, shm := exists(file+"-wal"), exists(file+"-shm"); {
	case wal && shm: // somebody has it open
		return "mode=ro&readonly_shm=1"
	case !wal: // nobody has, and all is in the file
		return "mode=ro&immutable=1"
	}
	return ""
}

// inspectFile looks into the database.
func inspectFile(ctx context.Context, file, dsn string) (found inspection) {
	fault := func(err error) bool {
		if err != nil {
			found.add(Fault, file, "%s", rootCause(err))
		}
		return err != nil
	}
	db, err := sql.Open("sqlite", dsn)
	if fault(err) {
		return found
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	s := &Store{dialect: dialect{name: "sqlite", goose: goose.DialectSQLite3, isFile: true}}
	needed, err := s.knownSchema()
	if fault(err) {
		return found
	}
	objects, err := texts(ctx, db, "SELECT name FROM sqlite_master")
	if fault(err) {
		return found
	}
	var version int64
	if slices.Contains(objects, "goose_db_version") {
		if fault(db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)) {
			return found
		}
	} else if slices.Contains(objects, "users") {
		found.add(Fault, file, "has tables of another program, or of a version before the first release")
		return found
	}
	if !found.schema(file, version, needed) {
		return found
	}
	for table, columns := range schemaTables {
		if _, err := texts(ctx, db, "SELECT "+columns+" FROM "+table+" LIMIT 0"); err != nil {
			found.add(Fault, file, "table %s: %s", table, rootCause(err))
		}
	}
	for _, index := range inspectedIndexes {
		if !slices.Contains(objects, index) {
			found.add(Fault, file, "the index %s is missing", index)
		}
	}
	problems, err := texts(ctx, db, "PRAGMA integrity_check(5)")
	if fault(err) {
		return found
	}
	if len(problems) == 1 && problems[0] == "ok" {
		found.add(Fine, file, "integrity")
	} else {
		found.add(Fault, file, "the file is damaged: %s", strings.Join(problems, "; "))
	}
	broken, err := texts(ctx, db, `SELECT DISTINCT "table" || ' refers to ' || parent || ', where there is no such row' FROM pragma_foreign_key_check`)
	if fault(err) {
		return found
	}
	for _, text := range broken {
		found.add(Fault, file, "%s", text)
	}
	if len(broken) == 0 {
		found.add(Fine, file, "foreign keys")
	}
	return found
}

// texts returns the first column of a query's rows.
func texts(ctx context.Context, db *sql.DB, query string) (all []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
