package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

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
	refused error                       // why there can never be a connection; nil otherwise
	letGo   func()                      // ends what keep began, from the first connection on
	opened  atomic.Pointer[[]namedFile] // the file, from the first connection on; its log and index, from the first write on

	checkedLog time.Time // belongs to the writer

	log     atomic.Pointer[slog.Logger]
	ctx     context.Context // ends with the store
	cancel  context.CancelFunc
	probing sync.WaitGroup
	mu      sync.Mutex
	failure error // why the file takes no writes; nil while it does
	damaged bool  // what the file holds may be damaged
}

// namedFile is a file as it was found at a path.
type namedFile struct {
	path string
	fs.FileInfo
}

func NewFile(uri string) *File {
	f := &File{uri: uri, Path: FileOf(uri)}
	f.LogTo(slog.New(slog.DiscardHandler))
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Name is the path of the file, without links, for the operator.
func (f *File) Name() string { return RealFile(cmp.Or(f.Path, f.uri)) }

// LogTo sets the log for events that belong to no request.
func (f *File) LogTo(log *slog.Logger) { f.log.Store(log) }

// StopProbing ends what a File does by itself.
func (f *File) StopProbing() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.probing.Wait()
}

// Close follows once all its connections are closed: it ends their locks on the file.
func (f *File) Close() {
	if f.opened.Load() != nil {
		f.letGo()
	}
}

// connect makes a connection by open, which must neither write to the file nor touch its log. The first
// connection looks at a log that was left behind, and then makes the file if there is none. Every later one
// must come to the same file, before and after it is opened: between the two looks somebody may exchange the
// file.
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

func (f *File) connectFirst(ctx context.Context, open func() (driver.Conn, error)) (driver.Conn, error) {
	if f.refused != nil {
		return nil, f.refused
	}
	if err := f.checkLeftLog(ctx); err != nil {
		return nil, err
	}
	letGo := keep(f.Path)
	defer func() {
		if f.opened.Load() == nil {
			letGo()
		}
	}()
	createPrivate(f.Path)
	for range 3 { // some file systems put another file in its place when it is first opened for writing
		before, _ := os.Stat(f.Path)
		conn, err := open()
		if err != nil {
			return nil, err
		}
		if after, err := os.Stat(f.Path); err == nil && before != nil && os.SameFile(before, after) {
			if conn, err = configured(ctx, conn); err == nil {
				f.letGo = letGo
				f.opened.Store(&[]namedFile{{f.Path, after}})
			}
			return conn, err
		}
		conn.Close()
	}
	return nil, fmt.Errorf("%w: another file appears at %s each time it is opened", dberr.ErrUnwritable, f.Path)
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

// checkCommit is check after a commit. It looks at the log and its index less often: a commit is in the log
// that SQLite has open, and is not lost yet when the path no longer leads there.
func (f *File) checkCommit() error {
	if now := time.Now(); now.Sub(f.checkedLog) > logCheckInterval {
		f.checkedLog = now
		return f.check()
	}
	return checkFiles((*f.opened.Load())[:1])
}

// check returns an error unless the path leads to the file that is open. Writes to another file are lost.
func (f *File) check() error { return checkFiles(*f.opened.Load()) }

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

// Ready returns why the file takes no writes, nil while it does.
func (f *File) Ready() error {
	if f.opened.Load() != nil {
		if err := f.check(); err != nil {
			f.Fail(err)
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// admit returns an error if it is already known that a write would be lost, or may be. In a damaged file a
// write that meets no damaged page would succeed, and nobody could read it later.
func (f *File) admit() error {
	f.mu.Lock()
	failure, damaged := f.failure, f.damaged
	f.mu.Unlock()
	switch {
	case failure == nil || f.opened.Load() == nil:
		return nil
	case damaged:
		return failure
	}
	return f.check()
}

// Fail notes an ErrUnwritable, and begins to probe. The file is not ready until a probe succeeds.
func (f *File) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damaged = f.damaged || isDamage(err)
	if f.failure != nil || f.ctx.Err() != nil {
		return
	}
	f.failure = err
	f.log.Load().Error("the database takes no writes", "error", err.Error())
	f.probing.Go(f.probeUntilWritable)
}

// isDamage reports whether err says that the content of the file is damaged. A write to another place in the
// file would not notice that.
func isDamage(err error) bool {
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return false
	}
	switch lite.Code() {
	case sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_DATA:
		return true
	}
	return lite.Code()&0xff == sqlite3.SQLITE_CORRUPT || lite.Code()&0xff == sqlite3.SQLITE_NOTADB
}

const (
	// logCheckInterval is how often commits look at the log and its index.
	logCheckInterval = 100 * time.Millisecond
	// minProbeDelay and maxProbeDelay bound the time between two probes. Within these bounds it is ten times
	// what a probe takes, since checking a large file takes long.
	minProbeDelay = 250 * time.Millisecond
	maxProbeDelay = time.Minute
)

// probeUntilWritable probes until the file takes writes again, or the store is closed.
func (f *File) probeUntilWritable() {
	for delay := minProbeDelay; ; {
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(delay):
		}
		begin := time.Now()
		err := f.probe()
		delay = min(max(10*time.Since(begin), minProbeDelay), maxProbeDelay)
		f.mu.Lock()
		f.damaged = f.damaged || isDamage(err)
		switch {
		case err != nil:
			f.failure = err
		case !f.damaged: // otherwise a call has met more damage since the check
			f.failure = nil
			f.mu.Unlock()
			f.log.Load().Info("the database takes writes again")
			return
		}
		f.mu.Unlock()
	}
}

// probe writes something. Before that it checks a file that may be damaged.
func (f *File) probe() error {
	f.mu.Lock()
	damaged := f.damaged
	f.mu.Unlock()
	if f.opened.Load() != nil {
		if err := f.check(); err != nil {
			return err
		}
	}
	if damaged {
		if err := f.quickCheck(f.ctx); err != nil {
			return fmt.Errorf("%w: %w", dberr.ErrUnwritable, err)
		}
		f.mu.Lock()
		f.damaged = false
		f.mu.Unlock()
	}
	return f.write(f.ctx)
}
