package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// OpenPool makes a pool of connections to the file. They wait no longer than busy for other processes and for
// each other. The first connection makes the file.
func (f *File) OpenPool(busy time.Duration) (*sql.DB, error) {
	dsn := DSN(f.uri, busy)
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return sql.OpenDB(connector{db.Driver(), f, dsn}), nil
}

// connector makes connections to a file that only its owner can read and write (driver.Connector).
type connector struct {
	driver driver.Driver
	file   *File
	dsn    string
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	return c.file.connect(ctx, func() (driver.Conn, error) { return c.driver.Open(c.dsn) })
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.driver }

// FileOf is the file that SQLite finds at path. SQLite reads path as the rest of a URI, in which two slashes at
// the start introduce a host (RFC 8089 section 2). The result is "" if the host is another machine.
func FileOf(path string) string {
	authority, ok := strings.CutPrefix(path, "//")
	if !ok {
		return path
	}
	host, file, ok := strings.Cut(authority, "/")
	if !ok || host != "" && host != "localhost" {
		return ""
	}
	return "/" + file
}

// creating is held while a file is made. Closing any descriptor of a file drops all locks that this process has
// on it, so none may be opened once SQLite has the file.
var creating sync.Mutex

// createPrivate makes the file for its owner alone, if it does not exist. SQLite would make it readable for
// everybody; to -wal and -shm SQLite gives the mode of the file. If something fails here, it also fails in
// SQLite, which says why.
func createPrivate(file string) {
	if file == "" {
		return
	}
	creating.Lock()
	defer creating.Unlock()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	// Without O_EXCL a symbolic link is followed.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) // the operator names the file
	if err == nil {
		f.Chmod(0o600) // a umask may have taken the owner's bits
		f.Close()
	}
}

// SharedFiles returns the files of a database that other users of the machine can read or write.
func SharedFiles(path string) (files []string) {
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o066 != 0 {
			files = append(files, file)
		}
	}
	return files
}
