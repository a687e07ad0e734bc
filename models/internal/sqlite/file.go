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

// File is the file of SQLite. It makes sure that all connections have the same file, and knows whether the path
// still leads to it and whether it takes writes. SQLite notices neither that a file was removed nor that it was
// replaced: it goes on with a file to which no path leads, and what it writes there is lost when the process
// ends.
type File struct {
	uri  string // as DATABASE_URL names it
	Path string // as SQLite finds it
	// write writes something in a transaction that changes nothing.
	write func(ctx context.Context) error

	opening sync.Mutex                  // held while the first connection is made
	opened  atomic.Pointer[[]namedFile] // the file, from the first connection on; its log and index, from the first write on

	log     atomic.Pointer[slog.Logger]
	mu      sync.Mutex
	failure error // why the file takes no writes; nil while it does
	damaged bool  // what the file holds is damaged
}

// namedFile is a file as it was found at a path.
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

// connect makes a connection by open, which must neither write to the file nor touch its log. Every connection
// but the first must come to the same file as that one, before and after it is opened: between the two looks
// somebody may exchange the file.
func (f *File) connect(ctx context.Context, open func() (driver.Conn, error)) (driver.Conn, error) {
	if f.opened.Load() == nil {
		f.opening.Lock()
		defer f.opening.Unlock()
	}
	if f.opened.Load() == nil {
		return f.connectFirst(ctx, open)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	conn, err := open()
	if err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		conn.Close()
		return nil, err
	}
	return configured(ctx, conn)
}

// configured applies settings to conn, or closes it.
func configured(ctx context.Context, conn driver.Conn) (driver.Conn, error) {
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, settings, nil); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// connectFirst makes the file if there is none. Only then it looks at which file that is: some file systems put
// another one in its place when it is first opened for writing.
func (f *File) connectFirst(ctx context.Context, open func() (driver.Conn, error)) (driver.Conn, error) {
	if err := RefuseLogWithoutFile(RealFile(f.Path)); err != nil {
		return nil, err
	}
	made, err := OpenConn(ctx, f.uri, url.Values{"mode": {"rwc"}})
	if err != nil {
		return nil, err
	}
	made.Close()
	before, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	conn, err := open()
	if err != nil {
		return nil, err
	}
	file := []namedFile{{f.Path, before}}
	if err := checkFiles(file); err != nil {
		conn.Close()
		return nil, err
	}
	if conn, err = configured(ctx, conn); err == nil {
		f.opened.Store(&file)
	}
	return conn, err
}

// addLog makes check look at the log and its index, too. They stay the same files while the writing connection
// is open.
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

// check returns an error unless the path leads to the file that is open. Writes to another file are lost.
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

// admit returns an error if it is already known that a write would be lost, or may be. In a damaged file a
// write that meets no damaged page would succeed, and nobody could read it later.
func (f *File) admit() error {
	f.mu.Lock()
	failure, damaged := f.failure, f.damaged
	f.mu.Unlock()
	switch {
	case failure == nil:
		return nil
	case damaged:
		return failure
	}
	return f.check()
}

// Ready returns why the file takes no writes, nil if it does. After a failure Ready writes something, and a
// success ends the failure. Damage stays until the process ends.
func (f *File) Ready(ctx context.Context) error {
	f.mu.Lock()
	failed := f.failure != nil
	f.mu.Unlock()
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
	if f.failure != nil && !f.damaged { // another call of Ready, or of a write, may have come first
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
	if !f.damaged {
		f.failure, f.damaged = err, isDamage(err)
	}
}
