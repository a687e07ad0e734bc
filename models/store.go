package models

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/notify"
	"worldevents/models/internal/postgres"
	"worldevents/models/internal/sqlite"
)

// Options of a Store.
type Options struct {
	// URL is sqlite:PATH or postgres://…; pgx reads the latter whole, several hosts and all settings included.
	URL string
	// MaxConns is the size of the PostgreSQL pool, at least 1.
	MaxConns int
	// Timeout bounds all database work of one call, retries and waiting for a connection included.
	Timeout time.Duration
	// MaxWait bounds the wait of one call for a connection; zero means a second. It takes at most half of Timeout.
	MaxWait time.Duration
	// Now is the clock; nil means time.Now, and on PostgreSQL the server's clock for all that rows keep.
	Now func() time.Time
	// Sessions is how long sessions last, and how many a user may have.
	Sessions SessionPolicy
}

// Store is the database. Its methods may be called concurrently.
type Store struct {
	database database
	dialect  dialect
	file     *sqlite.File     // nil on PostgreSQL
	server   *postgres.Server // nil on SQLite
	writer   pool
	reader   pool // the same as writer on PostgreSQL
	writes   writes
	wal      *sqlite.WAL // nil on PostgreSQL
	// instances are nil on SQLite.
	instances  *notify.Instances
	subscriber atomic.Pointer[func(own bool)]
	timeout    time.Duration
	maxWait    time.Duration
	url        string // of Options
	maxConns   int
	now        func() time.Time
	policy     SessionPolicy
	// serverClock means that the database's clock is used where rows keep the time of writing.
	serverClock bool
	schema      storedSchema
}

// writes does changes as data; see Store.apply.
type writes interface {
	// Apply does the write of a job. It returns ErrBusy if that has not begun by giveUp, and ErrTimeout if it has not ended by the job's
	// deadline.
	Apply(ctx context.Context, j *batch.Job, giveUp time.Time) error
	Close()
}

// pool is a connection pool and how its connections are shared.
type pool struct {
	gorm *gorm.DB
	sql  *sql.DB
	// limiter shares the connections.
	limiter batch.Limiter
	timings timings
	// enforceDeadline means that running statements are cancelled at the call's deadline.
	enforceDeadline bool
}

// Open prepares a Store. It does not connect: a database that is away shows in Migrate and Ready. An error means
// that the URL can never work.
func Open(o Options) (*Store, error) {
	s := &Store{timeout: o.Timeout, maxWait: min(cmp.Or(o.MaxWait, time.Second), o.Timeout/2), url: o.URL, maxConns: o.MaxConns, now: o.Now, policy: o.Sessions}
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		err = s.openSQLite(path)
	} else {
		err = s.openPostgres(o.URL, o.MaxConns)
	}
	if err != nil {
		return nil, err
	}
	s.serverClock = o.Now == nil && s.server != nil
	return s, nil
}

// newPool makes a pool of n connections, with GORM over it.
func newPool(db *sql.DB, dialector gorm.Dialector, n int) (pool, error) {
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	g, err := openGORM(dialector)
	return pool{gorm: g, sql: db, limiter: batch.NewConnections(n), enforceDeadline: true}, err
}

// openGORM puts GORM over a pool. It makes no transaction of its own around one statement or inside another, prepares
// nothing (its prepared statements break behind PgBouncer), and does not log: it would print bound values, tokens among
// them.
func openGORM(dialector gorm.Dialector) (*gorm.DB, error) {
	return gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction:   true,
		DisableAutomaticPing:     true,
		DisableNestedTransaction: true,
		Logger:                   logger.Discard,
	})
}

// Close closes all connections. Other instances have been told of all writes before, unless that takes a second.
func (s *Store) Close() error {
	if s.instances != nil {
		s.instances.Close()
	}
	if s.wal != nil {
		s.wal.Close()
	}
	if s.file != nil {
		s.file.Close()
	}
	s.writes.Close()
	return errors.Join(s.writer.sql.Close(), s.reader.sql.Close())
}

// Pools returns the connection pools by name, for metrics.
func (s *Store) Pools() map[string]*sql.DB {
	return map[string]*sql.DB{s.writer.timings.pool: s.writer.sql, s.reader.timings.pool: s.reader.sql}
}

// WAL returns the write-ahead log of SQLite, for metrics; nil on PostgreSQL, which looks after its own.
func (s *Store) WAL() *sqlite.WAL { return s.wal }

// Timings returns what is counted of each pool: histograms, in seconds, of how long calls waited for a connection and of how
// long they took then, how many wait now, and errors by class. A call that got no connection in time counts as waiting.
func (s *Store) Timings() []prometheus.Collector {
	all := s.writer.timings.collectors()
	if s.reader.sql != s.writer.sql {
		all = append(all, s.reader.timings.collectors()...)
	}
	return all
}

// LogTo has the store log what no caller is told: that a SQLite file is checked, that it takes no writes, and that it takes
// them again, and that its log cannot be emptied.
func (s *Store) LogTo(log *slog.Logger) {
	if s.file != nil {
		s.file.LogTo(log)
	}
}

// Timeout is what Options said.
func (s *Store) Timeout() time.Duration { return s.timeout }

// SessionPolicy is what Options said.
func (s *Store) SessionPolicy() SessionPolicy { return s.policy }

// Ready reports whether the database responds within a second and can be written to. It does not queue behind other
// calls: a busy pool is no reason to take an instance out of service, a dead one is. Once a write has failed for want of
// room or the like, it wants a write to succeed first: on PostgreSQL one of its own, on SQLite the probe's.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(time.Second, s.timeout))
	defer cancel()
	return s.database.ready(s.reader.gorm.WithContext(ctx))
}

// SharedFiles returns the database files that users of the machine besides the owner can read or write. There are none
// on PostgreSQL.
func (s *Store) SharedFiles() (files []string) {
	if s.file == nil {
		return nil
	}
	return sqlite.SharedFiles(s.file.Path)
}

// UseCredentials has new connections made with the user and the password of a URL, which is otherwise that of Options. Connections
// that nobody uses are closed, and the others when what they do is done. It returns ErrFixedURL or ErrCredentials, and then
// changes nothing. It must not be called concurrently.
func (s *Store) UseCredentials(ctx context.Context, text string) (c postgres.Credentials, err error) {
	if s.server == nil {
		if text != s.url {
			err = postgres.ErrFixedURL
		}
		return c, err
	}
	if c, err = s.server.UseCredentials(ctx, text); c.Changed {
		s.instances.Renew()
		go s.closeIdle()
		time.AfterFunc(s.timeout, s.closeIdle) // those that were in use
	}
	return c, err
}

// closeIdle closes the connections of PostgreSQL's pool that nobody uses.
func (s *Store) closeIdle() {
	s.writer.sql.SetMaxIdleConns(0)
	s.writer.sql.SetMaxIdleConns(s.maxConns)
}
