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
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"worldevents/models/internal/dberr"
)

// File is the file of SQLite. It sees to it that all connections have the same one, knows whether that is still what
// the path names, and whether it takes writes. SQLite itself notices neither a file that was removed nor one that was
// replaced, and goes on with what no path leads to.
type File struct {
	uri  string // as DATABASE_URL names it
	Path string // as SQLite finds it
	// write writes something, in a transaction that changes nothing.
	write func(ctx context.Context) error

	opening sync.Mutex                  // until the first connection is made
	refused error                       // what was found before that, if it can never be made
	opened  atomic.Pointer[[]namedFile] // by the first connection; then the log and its index, once there is something written

	checkedLog time.Time // by whoever writes

	ctx     context.Context // ends with the store
	cancel  context.CancelFunc
	probing sync.WaitGroup
	mu      sync.Mutex
	log     *slog.Logger
	failure error // why it takes no writes; nil while it does
	damaged bool  // the failure may be one of what the file holds
}

// namedFile is a file that was found at a path.
type namedFile struct {
	path string
	fs.FileInfo
}

func NewFile(uri string) *File {
	f := &File{uri: uri, Path: FileOf(uri), log: slog.New(slog.DiscardHandler)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Name is the file, without links, for the operator.
func (f *File) Name() string { return RealFile(cmp.Or(f.Path, f.uri)) }

// LogTo sets where to log what no caller is told.
func (f *File) LogTo(log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = log
}

func (f *File) logger() *slog.Logger {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log
}

// Close ends probing.
func (f *File) Close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.probing.Wait()
}

// connect makes a connection by open, which must not write to the file, nor touch its log. The first one makes the file if
// there is none, and before that looks at a log that was left. All others fail unless they come to the same file.
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

// configured returns conn with sqliteSettings, or closes it.
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
	createPrivate(f.Path)
	for range 3 { // some file systems put another file in its place when it is first opened for writing
		before, _ := os.Stat(f.Path)
		conn, err := open()
		if err != nil {
			return nil, err
		}
		if after, err := os.Stat(f.Path); err == nil && before != nil && os.SameFile(before, after) {
			if conn, err = configured(ctx, conn); err == nil {
				f.opened.Store(&[]namedFile{{f.Path, after}})
			}
			return conn, err
		}
		conn.Close()
	}
	return nil, fmt.Errorf("%w: another file appears at %s each time it is opened", dberr.ErrUnwritable, f.Path)
}

// addLog has check look at the log and its index, too. They stay the same ones while the connection that writes is open.
func (f *File) addLog() {
	real, err := filepath.EvalSymlinks(f.Path) // SQLite puts them beside the file itself
	if err != nil {
		return
	}
	files := (*f.opened.Load())[:1:1]
	for _, path := range []string{real + "-wal", real + "-shm"} {
		if info, err := os.Stat(path); err == nil {
			files = append(files, namedFile{path, info})
		}
	}
	f.opened.Store(&files)
}

// checkCommit is check for what was just committed. The log and its index are looked at less often: without them what was
// committed is not lost yet.
func (f *File) checkCommit() error {
	if now := time.Now(); now.Sub(f.checkedLog) > logCheckInterval {
		f.checkedLog = now
		return f.check()
	}
	return checkFiles((*f.opened.Load())[:1])
}

// check returns an error unless the path names the file that is open. What is written to another is lost.
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

// Ready returns why the file takes no writes, nil if it does.
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

// admit returns an error when it is known beforehand that what is written would be lost, or may be: in a damaged file a write
// may go well that comes to no damaged page, and nobody can read it later.
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

// Fail notes an ErrUnwritable. Until a probe succeeds the file is not ready.
func (f *File) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damaged = f.damaged || isDamage(err)
	if f.failure != nil || f.ctx.Err() != nil {
		return
	}
	f.failure = err
	f.log.Error("the database takes no writes", "error", err.Error())
	f.probing.Go(f.probeUntilWritable)
}

// isDamage reports whether err is one of what the file holds, which a write elsewhere in the file does not meet.
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
	// minProbeDelay and maxProbeDelay bound the time between two probes, which is otherwise ten times what one takes.
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
		case !f.damaged: // somebody may have met more of it meanwhile
			f.failure = nil
			f.mu.Unlock()
			f.logger().Info("the database takes writes again")
			return
		}
		f.mu.Unlock()
	}
}

// probe writes something, and before that has a file checked that may be damaged.
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
