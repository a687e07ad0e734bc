package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"worldevents/models/internal/dberr"
)

// File is the file of SQLite. It ensures that all connections have the same file, and knows whether the path still leads to it and whether
// it takes writes. SQLite does not notice a removed or replaced file: its writes are lost when the process ends.
type File struct {
	uri  string // in DATABASE_URL
	Path string // of SQLite
	// write writes a page of the file and changes nothing: nobody uses user_version, which it sets to 0 as before.
	write func(ctx context.Context) error

	opening sync.Mutex                  // of the first connection
	opened  atomic.Pointer[[]namedFile] // the file, from the first connection on; its log and index, from the first write on

	log     atomic.Pointer[slog.Logger]
	mu      sync.Mutex
	failure error // why the file takes no writes; nil while it does; damage for good
}

// namedFile is a file and the path where it was found.
type namedFile struct {
	path string
	fs.FileInfo
}

func NewFile(uri string) *File {
	f := &File{uri: uri, Path: FileOf(uri)}
	f.LogTo(slog.New(slog.DiscardHandler))
	return f
}

// Name is the path of the file, without links, for the operator.
func (f *File) Name() string { return RealFile(cmp.Or(f.Path, f.uri)) }

// LogTo sets the log for events that belong to no request.
func (f *File) LogTo(log *slog.Logger) { f.log.Store(log) }

// connect makes a connection by open, which must neither write to the file nor touch its log. Every connection must have the file of the
// first one. connect looks before and after opening, because somebody may exchange the file in between.
func (f *File) connect(ctx context.Context, open func() (driver.Conn, error)) (conn driver.Conn, err error) {
	files := f.opened.Load()
	if files == nil {
		f.opening.Lock()
		defer f.opening.Unlock()
		if files = f.opened.Load(); files == nil {
			if files, err = f.find(ctx); err != nil {
				return nil, err
			}
		}
	}
	if err := checkFiles(*files); err != nil {
		return nil, err
	}
	if conn, err = open(); err != nil {
		return nil, err
	}
	if err = checkFiles(*files); err == nil {
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, settings, nil)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	f.opened.CompareAndSwap(nil, files)
	return conn, nil
}

// find makes the file if there is none, and then looks at it: some file systems replace a file when it is first opened for writing.
func (f *File) find(ctx context.Context) (*[]namedFile, error) {
	if err := RefuseLogWithoutFile(RealFile(f.Path)); err != nil {
		return nil, err
	}
	made, err := OpenConn(ctx, f.uri, url.Values{"mode": {"rwc"}})
	if err != nil {
		return nil, err
	}
	made.Close()
	info, err := os.Stat(f.Path)
	return &[]namedFile{{f.Path, info}}, err
}

// addLog makes check look at the log and its index, too. They stay the same files while the writing connection is open.
func (f *File) addLog() {
	real := RealFile(f.Path)
	files := (*f.opened.Load())[:1:1]
	for _, path := range []string{real + "-wal", real + "-shm"} {
		if info, err := os.Stat(path); err == nil {
			files = append(files, namedFile{path, info})
		}
	}
	f.opened.Store(&files)
}

// check returns an error unless the path leads to the open file. Writes to another file are lost.
func (f *File) check() error {
	if files := f.opened.Load(); files != nil {
		return checkFiles(*files)
	}
	return nil
}

func checkFiles(files []namedFile) error {
	for _, file := range files {
		switch now, err := os.Stat(file.path); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s was removed while it was open", dberr.ErrUnwritable, file.path)
		case err != nil:
			return fmt.Errorf("%w: %w", dberr.ErrUnwritable, err)
		case !os.SameFile(file.FileInfo, now):
			return fmt.Errorf("%w: %s was replaced while it was open", dberr.ErrUnwritable, file.path)
		}
	}
	return nil
}

// failed returns why the last write failed, nil if it did not.
func (f *File) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// admit returns an error if a write would be lost, or may be. In a damaged file a write that meets no damaged page would succeed, and
// nobody could read it later.
func (f *File) admit() error {
	if err := f.failed(); err == nil || isDamage(err) {
		return err
	}
	return f.check()
}

// Ready returns why the file takes no writes, nil if it does. After a failure Ready writes something, and a success ends the failure.
// Damage stays until the process ends.
func (f *File) Ready(ctx context.Context) error {
	failed := f.failed() != nil
	err := f.check()
	if err == nil && failed {
		err = f.write(ctx)
	}
	if errors.Is(err, dberr.ErrUnwritable) {
		f.Fail(err)
	}
	if err != nil || !failed {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil && !isDamage(f.failure) { // another call of Ready or a write may have come first
		f.failure = nil
		f.log.Load().Info("the database takes writes again")
	}
	return f.failure
}

// Fail notes an ErrUnwritable. The file is not ready until Ready has written to it.
func (f *File) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil {
		f.log.Load().Error("the database takes no writes", "error", err.Error())
	}
	if !isDamage(f.failure) {
		f.failure = err
	}
}
