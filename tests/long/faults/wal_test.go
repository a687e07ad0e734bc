package faults

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

const (
	// maxWAL is what SQLite's write-ahead log may come to in bytes.
	maxWAL = 64 << 20
	// The worlds are so large that each is read in several batches.
	largeWorlds, eventsOfLargeWorld, rsvpsOfLargeEvent = 16, 100, 100
	// In the log so many writes take more than it may come to.
	walWrites = 2300
)

// Without end, worlds are read that take several batches, so that at any moment some snapshot is in use, while others
// write.
func TestWALIsBounded(t *testing.T) {
	t.Parallel()
	p, db := largeWorldsOnSQLite(t)
	load := startReadersAndWriters(t, p)
	largest := int64(0)
	servicetest.Within(t, 3*time.Minute, "much is written", func() bool {
		largest = max(largest, walSize(t, db))
		return load.writes.Load() >= walWrites
	})
	load.stop()
	if largest > maxWAL {
		t.Errorf("the log came to %d MB", largest>>20)
	}
	t.Logf("the log came to %d MB; %v", largest>>20, load)
}

// While another process reads one snapshot the log grows, and metrics say so. Nobody is refused, then and afterwards, and
// soon after the snapshot's end the log is small again.
func TestWALBehindSnapshot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		quiet bool // nothing is read or written any more when the snapshot ends
	}{{"under load", false}, {"in silence", true}} {
		t.Run(test.name, func(t *testing.T) {
			p, db := largeWorldsOnSQLite(t)
			end := snapshot(t, db)
			servicetest.AddEvents(&servicetest.Service{Database: db}, "unread", 6000, 1600, 2031, strings.Repeat("x", 50<<10)) // 80 MB
			load := startReadersAndWriters(t, p)
			var size, blocked float64
			servicetest.Within(t, time.Minute, "the metrics say that the snapshot holds back the log", func() bool {
				size, blocked = walMetrics(t, p)
				return size > maxWAL && blocked > 1 && load.writes.Load() > 200
			})
			if test.quiet {
				load.stop()
			}
			end()
			begin := time.Now()
			servicetest.Within(t, time.Minute, "the log is small", func() bool { return walSize(t, db) < maxWAL })
			took := time.Since(begin)
			load.machine.within(t, 10*time.Second, took, "for the log to be small")
			servicetest.Within(t, time.Minute, "the metrics say so", func() bool {
				size, blocked := walMetrics(t, p)
				return size < maxWAL && blocked == 0
			})
			if !test.quiet {
				load.stop()
			}
			t.Logf("small %v after the end of the snapshot, which was blocked for %.1f s; %v", took.Round(time.Millisecond), blocked, load)
		})
	}
}

// largeWorldsOnSQLite serves worlds that are large.
func largeWorldsOnSQLite(t *testing.T) (*servicetest.Process, *servicetest.Database) {
	t.Helper()
	db := servicetest.SQLite(t)
	s := &servicetest.Service{Database: db}
	servicetest.CrowdOf(t, s, "u", "users", rsvpsOfLargeEvent)
	for i := range largeWorlds {
		servicetest.AddEvents(s, fmt.Sprint("large", i), 7000+i, eventsOfLargeWorld, 2031, "")
	}
	join(db, "e.world_id LIKE 'large%'")
	db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	// A call waits for a connection as long as with the default, a second at most: nobody may be held back for longer. To read a
	// large world may take longer than the default on a machine that others use, too.
	return servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_TIMEOUT=20s").ServeReady(), db
}

// createLarge creates an event with a long description.
func (u *user) createLarge(world string) response {
	return u.Do("POST", "/api/event/"+world, fmt.Sprintf(`{"name":"n","description":%q,"scheduledAt":"2030-01-02T03:04:05Z"}`, strings.Repeat("😀", 5000)))
}

// walLoad is readers of large worlds and writers at work.
type walLoad struct {
	reads, writes atomic.Int64
	slowest       slowest // of the writes
	machine       *yardstick
	stop          func()
}

func startReadersAndWriters(t *testing.T, p *servicetest.Process) *walLoad {
	t.Helper()
	// There are fewer readers than connections for them: none waits but for the log.
	const readers, writers = 2, 4
	transport := newTransport(readers + writers)
	users := make([]*user, readers+writers)
	for i := range users {
		users[i] = signIn(t, transport, p.URL, fmt.Sprintf("user%d", i))
	}
	load := &walLoad{machine: newYardstick(t, users[0], writesToDisk(t))}
	stop := working(len(users), func(i int) {
		u := users[i]
		var res response
		if i < readers {
			res = u.Do("GET", fmt.Sprintf("/api/event/large%d", i%largeWorlds), "")
			load.reads.Add(1)
		} else {
			res = u.createLarge(fmt.Sprintf("other%d", i))
			load.writes.Add(1)
			load.slowest.record(res.Took)
		}
		switch {
		case res.Status == 503:
			load.machine.within(t, 0, time.Second, res) // for so long it waited for its turn
		case res.Status != 200 || res.Err != nil:
			t.Error(res)
		}
	})
	load.stop = sync.OnceFunc(func() {
		stop()
		load.machine.stop()
		transport.CloseIdleConnections()
	})
	t.Cleanup(load.stop)
	return load
}

// writesToDisk returns what a commit does at least.
func writesToDisk(t *testing.T) func() {
	t.Helper()
	file := servicetest.Must(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	t.Cleanup(func() { file.Close() })
	page := make([]byte, 4<<10)
	return func() {
		file.WriteAt(page, 0)
		file.Sync()
	}
}

func (l *walLoad) String() string {
	return fmt.Sprintf("%d reads, %d writes, the slowest took %v", l.reads.Load(), l.writes.Load(), l.slowest.time().Round(time.Millisecond))
}

// snapshot begins to read as another process does, and returns a function that ends it.
func snapshot(t *testing.T, db *servicetest.Database) (end func()) {
	t.Helper()
	tx := servicetest.Must(db.DB.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true}))(t)
	var n int
	servicetest.NoError(t, tx.QueryRow("SELECT count(*) FROM users").Scan(&n))
	return func() { tx.Rollback() }
}

func walSize(t *testing.T, db *servicetest.Database) int64 {
	t.Helper()
	return servicetest.Must(os.Stat(db.File() + "-wal"))(t).Size()
}

// walMetrics are the size of the log in bytes, and for how many seconds checkpoints have been blocked.
func walMetrics(t *testing.T, p *servicetest.Process) (size, blocked float64) {
	t.Helper()
	return p.Metric("worldevents_sqlite_wal_bytes"), p.Metric("worldevents_sqlite_checkpoint_blocked_seconds")
}
