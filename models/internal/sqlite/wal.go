package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/models/internal/dberr"
)

// WAL keeps the write-ahead log of a SQLite file small. Ten times a second it looks at the size. Beyond walLimit it has SQLite copy what no
// reader needs into the file (PASSIVE), while everybody works. If little is left then, it empties the log (TRUNCATE). That stops the writer
// while it waits for readers, so it is not tried behind a long read.
type WAL struct {
	file         *File
	db           *sql.DB                   // a connection of its own, so that nothing on it disturbs a write
	blockedSince atomic.Pointer[time.Time] // nil while little is left after copying
	reported     bool                      // that nothing can be copied
	cancel       context.CancelFunc
	watching     sync.WaitGroup
}

const (
	walLimit    = 16 << 20               // the size in bytes beyond which the log is emptied
	walInterval = 100 * time.Millisecond // of looking at the size; a second of writes is too much for a nearly full disk
	maxWALRest  = 1000                   // frames, of 4 KB each, that may be left to copy when the log is emptied
)

// newWAL watches the log of a file, which need not exist yet, until Close. It connects only for work. Emptying waits for db's busy timeout.
func newWAL(file *File, db *sql.DB) *WAL {
	db.SetMaxOpenConns(1)
	l := &WAL{file: file, db: db}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.watching.Go(func() { l.watch(ctx) })
	return l
}

// Size returns the size of the log in bytes, 0 without one.
func (l *WAL) Size() int64 { return sizeOf(RealFile(l.file.Path) + "-wal") }

// Blocked returns for how long copying has left much of a log larger than walLimit; 0 if it does not.
func (l *WAL) Blocked() time.Duration {
	if since := l.blockedSince.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// Close ends the watching, and interrupts its work.
func (l *WAL) Close() error {
	l.cancel()
	l.watching.Wait()
	return l.db.Close()
}

func (l *WAL) watch(ctx context.Context) {
	tick := time.NewTicker(walInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if l.Size() <= walLimit && l.Blocked() == 0 {
				continue
			}
			if left, err := l.checkpoint(ctx, "PASSIVE"); err != nil || left >= maxWALRest {
				l.blockedSince.CompareAndSwap(nil, &now)
				continue
			}
			l.blockedSince.Store(nil)
			l.reported = false
			l.checkpoint(ctx, "TRUNCATE") // one in vain is tried again
		}
	}
}

// checkpoint runs a checkpoint (sqlite.org/pragma.html#pragma_wal_checkpoint), and returns how many frames of the log are left to copy. A
// busy file is no error. A disk that takes no more of the database is only logged: the log keeps the writes safe and readable.
func (l *WAL) checkpoint(ctx context.Context, mode string) (left int, err error) {
	var busy bool
	var all, copied int
	err = dberr.Classify(l.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &all, &copied))
	if errors.Is(err, dberr.ErrUnwritable) && !l.reported {
		l.reported = true
		l.file.log.Load().Error("the write-ahead log cannot be emptied, and grows with each write", "error", err.Error())
	}
	return all - copied, err
}
