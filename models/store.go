// Package models keeps users, events and RSVPs in SQLite or PostgreSQL. Races are decided by the database: by one
// conditional UPDATE or one unique key, never by anything that an instance holds in memory.
package models

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
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
	dialect dialect
	writer  pool
	reader  pool // the same as writer on PostgreSQL
	writes  writes
	wal     *sqlite.WAL // nil on PostgreSQL
	// instances are nil on SQLite.
	instances  *notify.Instances
	subscriber atomic.Pointer[func(own bool)]
	timeout    time.Duration
	maxWait    time.Duration
	url        string // of Options
	maxConns   int
	now        func() time.Time
	policy     SessionPolicy
	file       *sqlite.File // nil on PostgreSQL
	// serverClock means that the database's clock is used where rows keep the time of writing.
	serverClock bool
	sick        sickness
	schema      atomic.Int64 // the version of the schema, 0 until it is known
	made        atomic.Bool  // by Migrate
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
		s.file = sqlite.NewFile(path)
		s.dialect = sqliteDialect(s.file, o.Timeout)
		err = s.openSQLite()
	} else {
		if s.dialect, err = postgresDialect(o.URL, o.Timeout); err == nil {
			s.writer, err = newPool(s.dialect, o.MaxConns)
		}
		s.reader = s.writer
	}
	if err == nil && s.dialect.server != nil {
		s.instances, err = notify.New(s.dialect.server)
	}
	if err != nil {
		return nil, err
	}
	if s.writer.timings = newTimings(s.dialect.name + "_write"); s.reader.sql == s.writer.sql {
		s.writer.timings = newTimings(s.dialect.name)
		s.writes = s.dialect.server.NewLane(s.writer.sql, s.writer.limiter.(batch.Connections), o.Timeout, s.maxWait, s.writer.timings.countError)
		s.reader = s.writer
	} else {
		s.reader.timings = newTimings(s.dialect.name + "_read")
	}
	s.serverClock = o.Now == nil && !s.dialect.isFile
	// The inner LIMIT keeps the order, and a large event from being read whole.
	s.dialect.usernames = fmt.Sprintf(`
		(SELECT %s FROM (
			SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number LIMIT %d
		) first)`, s.dialect.joinUsernames, largeRSVPs+1)
	return s, nil
}

// newPool makes a pool of n connections, with GORM over it.
func newPool(d dialect, n int) (pool, error) {
	db, err := d.connect()
	if err != nil {
		return pool{}, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	g, err := openGORM(d.gorm(db))
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
	if s.reader.sql == s.writer.sql {
		return map[string]*sql.DB{s.dialect.name: s.writer.sql}
	}
	return map[string]*sql.DB{s.dialect.name + "_write": s.writer.sql, s.dialect.name + "_read": s.reader.sql}
}

// WAL returns the write-ahead log of SQLite, for metrics; nil on PostgreSQL, which looks after its own.
func (s *Store) WAL() *sqlite.WAL { return s.wal }

// Timings returns what is counted of each pool: histograms, in seconds, of how long calls waited for a connection and of how
// long they took then, how many wait now, and errors by class. A call that got no connection in time counts as waiting.
func (s *Store) Timings() []prometheus.Collector {
	if s.reader.sql == s.writer.sql {
		return s.writer.timings.collectors(s.dialect.name)
	}
	return append(s.writer.timings.collectors(s.dialect.name+"_write"), s.reader.timings.collectors(s.dialect.name+"_read")...)
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
	if s.file != nil {
		if err := s.file.Ready(); err != nil {
			return err
		}
	}
	var writable bool
	err := postgres.WhileCrowded(ctx, func() error {
		return dberr.Classify(scan(s.reader.gorm.WithContext(ctx).Raw(s.dialect.writableQuery), &writable))
	})
	if err != nil {
		return err
	}
	if !writable {
		return fmt.Errorf("%w: read-only", ErrUnavailable)
	}
	if s.dialect.probe == nil {
		return nil
	}
	return s.sick.cure(func() error { return dberr.Classify(s.dialect.probe(s.writer.gorm.WithContext(ctx))) })
}

// SharedFiles returns the database files that users of the machine besides the owner can read or write. There are none
// on PostgreSQL.
func (s *Store) SharedFiles() (files []string) {
	if s.file == nil {
		return nil
	}
	return sqlite.SharedFiles(s.file.Path)
}
