package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// WAL is the write-ahead log of a SQLite file, and keeps it small.
//
// SQLite itself copies commits from the log into the database as it goes. But it begins the log anew only when
// a commit finds everything copied and nobody reading from the log
// (sqlite.org/wal.html#avoiding_excessively_large_wal_files). While reads overlap that moment never comes, and
// the log would grow without end.
//
// So a WAL looks at the size. Beyond walLimit it holds new reads back until the running ones are over, empties
// the log between two commits, and lets all go on. That is impossible while another process reads an old state
// of the database. Then the WAL lets everybody work, and looks from time to time whether that process is done.
type WAL struct {
	database string
	db       *sql.DB // a connection of its own, so that nothing on it disturbs a write
	readers  batch.Connections
	writer   *batch.Batcher
	commits  *writer // the connection that writes
	// hold bounds two waits: reads are held back until others are over, and then reads and writes until the log
	// is empty.
	hold time.Duration

	blockedSince atomic.Pointer[time.Time] // nil while nothing is wrong
	stuckAt      int                       // frames that were in the database when the log could not be emptied
	reported     bool                      // the log has a line that the database takes no writes

	cancel  context.CancelFunc
	stopped chan struct{}
}

const (
	// walLimit is the size in bytes beyond which the log is emptied. SQLite keeps an ordinary log near 4 MB.
	// Between walLimit and the 64 MB that are promised there is room for writes until the log is empty.
	walLimit = 16 << 20
	// walInterval is how often the WAL looks at the size.
	walInterval = 100 * time.Millisecond
	// maxWALDelay bounds the time between two attempts that fail. The log must be small 10 s after nothing
	// stands in the way.
	maxWALDelay = 3 * time.Second
	// maxWALRest is how many frames, of 4 KB each, are left to copy while reads and writes are held back, if
	// that can be reached.
	maxWALRest = 1000
)

// newWAL watches the log of a database, which need not exist yet, until Close. It connects to the database only
// when there is something to do.
func newWAL(path string, db *sql.DB, hold time.Duration, readers batch.Connections, writer *batch.Batcher, commits *writer) *WAL {
	db.SetMaxOpenConns(1)
	l := &WAL{database: path, db: db, readers: readers, writer: writer, commits: commits, hold: hold, stuckAt: -1, stopped: make(chan struct{})}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	go l.watch(ctx)
	return l
}

// Size returns the size of the log in bytes, 0 if there is none.
func (l *WAL) Size() int64 { return sizeOf(RealFile(l.database) + "-wal") }

// Blocked returns for how long the log has been larger than walLimit and could not be emptied; 0 if it can.
func (l *WAL) Blocked() time.Duration {
	if since := l.blockedSince.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// Close ends the watching. It interrupts what is being done, and waits for that.
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

// empty empties the log and reports whether it succeeded. It has three steps: copy most of the log while
// everybody works, hold reads back if something is left, and empty the log while nobody writes.
//
// Until it has succeeded commits copy nothing: the first that could would copy all of the log, and its writes would
// wait for that.
func (l *WAL) empty(ctx context.Context) bool {
	l.writer.Pause(ctx, func() { l.commits.checkpoint(ctx, false) })
	p, err := l.copy(ctx)
	if err != nil || l.isStuck(p) {
		return false
	}
	if !p.isWhole() { // if it is, new reads take nothing from the log and need not be held back
		hold := l.hold
		if l.Blocked() > 0 { // the last attempt failed: some read takes longer
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
		if emptied {
			l.commits.checkpoint(ctx, true)
		}
	})
	return emptied
}

// copy copies the log into the database while everybody works, until little is left or somebody is in the way.
// A checkpoint syncs the database only if nobody has written meanwhile. So what was copied is synced here. Else the
// last checkpoint would sync all of it, while nobody may write: on a slow disk that takes seconds.
func (l *WAL) copy(ctx context.Context) (p progress, err error) {
	for round := 1; ; round++ { // each time what was written meanwhile is less
		before := p.done
		p, err = l.checkpoint(ctx, "PASSIVE")
		if err != nil || l.isStuck(p) || p.done-before <= maxWALRest || round > 3 {
			return p, err
		}
		syncKept(ctx, l.database)
	}
}

// isStuck reports whether the read that stopped the last attempt is still in the way.
func (l *WAL) isStuck(p progress) bool { return p.done == l.stuckAt && p.done < p.log }

// progress is how many frames the log has, and how many of them the database has, too; -1 if not known.
type progress struct{ log, done int }

// isWhole reports whether the database has all of the log.
func (p progress) isWhole() bool { return p.log >= 0 && p.done == p.log }

// checkpoint runs a checkpoint (sqlite.org/pragma.html#pragma_wal_checkpoint). If somebody is in the way, that
// is no error. A disk that takes no more of the database is only logged, because what is in the log is safe and
// is read there.
func (l *WAL) checkpoint(ctx context.Context, mode string) (progress, error) {
	p, busy := progress{-1, -1}, false
	err := dberr.Classify(l.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &p.log, &p.done))
	if errors.Is(err, dberr.ErrUnwritable) && !l.reported {
		l.reported = true
		l.commits.file.log.Load().Error("the write-ahead log cannot be emptied, and grows with each write", "error", err.Error())
	}
	return p, err
}
