package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// WAL is the write-ahead log of a SQLite file. SQLite itself copies commits from the log into the database as it goes, but
// begins the log anew only when a commit finds all copied and nobody reading from it. While reads overlap that never comes,
// and the log would grow without end. A WAL therefore watches the size. Past walLimit it holds new reads back until those that
// run are over, empties the log between two commits, and lets all go on. While another process reads an old state of
// the database that cannot be done. Then it lets everybody work, and looks from time to time whether that state is given up.
type WAL struct {
	database string
	db       *sql.DB // a connection of its own: what fails or takes long on it disturbs no write
	readers  batch.Connections
	writer   *batch.Batcher
	commits  *writer // what the writer writes with
	// hold bounds how long reads are held back until others are over, and then again, with writes, until the log is empty.
	hold time.Duration

	blockedSince atomic.Pointer[time.Time] // nil while nothing is wrong
	stuckAt      int                       // the frames that were in the database when emptying the log failed
	reported     bool                      // that the database cannot be written to; until the log is empty

	cancel  context.CancelFunc
	stopped chan struct{}
}

const (
	// walLimit is the size in bytes from which on the log is emptied. SQLite keeps an ordinary one near 4 MB. The way from
	// here to the 64 MB that are promised is for what is written until that is done.
	walLimit = 16 << 20
	// walInterval is how often the size is looked at.
	walInterval = 100 * time.Millisecond
	// maxWALDelay bounds the time between two attempts that fail. The log must be small 10 s after it can be.
	maxWALDelay = 3 * time.Second
	// maxWALRest is how many frames, of 4 KB each, are copied while reads and writes wait, if that can be helped.
	maxWALRest = 1000
)

// newWAL begins to watch the log of a database, which need not exist yet, until close. It connects to the database when there
// is something to do.
func newWAL(path string, db *sql.DB, hold time.Duration, readers batch.Connections, writer *batch.Batcher, commits *writer) *WAL {
	db.SetMaxOpenConns(1)
	l := &WAL{database: path, db: db, readers: readers, writer: writer, commits: commits, hold: hold, stuckAt: -1, stopped: make(chan struct{})}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	go l.watch(ctx)
	return l
}

// Size returns the size of the log in bytes, 0 if there is none.
func (l *WAL) Size() int64 {
	path, err := filepath.EvalSymlinks(l.database) // SQLite puts the log beside the file itself
	if err != nil {
		return 0
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// Blocked returns for how long the log could not be emptied, although it is larger than walLimit; else 0.
func (l *WAL) Blocked() time.Duration {
	if since := l.blockedSince.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// Close ends watching. It waits for what is being done, which it cuts short.
func (l *WAL) Close() error {
	l.cancel()
	<-l.stopped
	return l.db.Close()
}

func (l *WAL) watch(ctx context.Context) {
	defer close(l.stopped)
	tick := time.NewTicker(walInterval)
	defer tick.Stop()
	var delay time.Duration
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if l.Size() <= walLimit && l.Blocked() == 0 || now.Before(next) {
				continue
			}
		}
		begin := time.Now()
		if l.empty(ctx) {
			l.blockedSince.Store(nil)
			l.reported = false
			delay, next = 0, time.Time{}
			continue
		}
		l.blockedSince.CompareAndSwap(nil, &begin)
		delay = min(max(2*delay, walInterval), maxWALDelay)
		next = time.Now().Add(delay)
	}
}

// empty empties the log, and reports whether it has.
func (l *WAL) empty(ctx context.Context) bool {
	p, err := l.copy(ctx)
	if err != nil || l.isStuck(p) {
		return false
	}
	if !p.isWhole() { // else new reads need nothing of the log
		hold := l.hold
		if l.Blocked() > 0 { // some read takes longer
			hold *= 2
		}
		wait, cancel := context.WithTimeout(ctx, hold)
		defer cancel()
		if l.readers.AcquireAll(wait) != nil {
			return false
		}
		defer l.readers.ReleaseAll()
	}
	wait, cancel := context.WithTimeout(ctx, l.hold)
	defer cancel()
	emptied := false
	l.writer.Pause(wait, func() {
		p, err = l.checkpoint(wait, "TRUNCATE")
		emptied = err == nil && p == progress{}
		l.stuckAt = p.done
		// All that comes together until the next attempt would be copied by the first commit that can, and its writes would
		// wait for that.
		l.commits.checkpoint(emptied)
	})
	return emptied
}

// copy copies the log into the database, while everybody works on, until little is left or somebody is in the way.
func (l *WAL) copy(ctx context.Context) (p progress, err error) {
	for range 3 { // each time what was written meanwhile is less
		p, err = l.checkpoint(ctx, "PASSIVE")
		if err != nil || p.log-p.done <= maxWALRest || l.isStuck(p) {
			break
		}
	}
	return p, err
}

// isStuck reports whether whoever reads an old state still does.
func (l *WAL) isStuck(p progress) bool { return p.done == l.stuckAt && p.done < p.log }

// progress is how many frames are in the log, and how many of them are in the database, too; -1 if that is not known.
type progress struct{ log, done int }

// isWhole reports whether all of the log is in the database.
func (p progress) isWhole() bool { return p.log >= 0 && p.done == p.log }

// checkpoint does what sqlite.org/pragma.html#pragma_wal_checkpoint says. Being in somebody's way is no error. A disk that takes
// nothing more of the database is reported and no more than that: what is in the log is safe, and others read it there.
func (l *WAL) checkpoint(ctx context.Context, mode string) (progress, error) {
	p, busy := progress{-1, -1}, false
	err := dberr.Classify(l.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &p.log, &p.done))
	if errors.Is(err, dberr.ErrUnwritable) && !l.reported {
		l.reported = true
		l.commits.file.logger().Error("the write-ahead log cannot be emptied, and grows with each write", "error", err.Error())
	}
	return p, err
}
