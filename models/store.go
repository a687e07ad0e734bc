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

type Options struct {
	// URL is sqlite:PATH or postgres://…, which pgx reads with several hosts and all settings.
	URL      string
	MaxConns int // of the PostgreSQL pool, at least 1
	// Timeout bounds the database work of one call, including retries and the queue for a connection.
	Timeout time.Duration
	// MaxWait bounds the queue for a connection; zero means a second. It is at most half of Timeout, so that half is left for the work.
	MaxWait time.Duration
	// Now is the clock; nil means time.Now, and on PostgreSQL also that the times in rows come from the server's clock.
	Now      func() time.Time
	Sessions SessionPolicy
}

// Store is the database. Its methods may be called concurrently.
type Store struct {
	options  Options // MaxWait is bounded, and Now is set
	database database
	dialect  dialect
	file     *sqlite.File     // nil on PostgreSQL
	server   *postgres.Server // nil on SQLite
	writer   pool
	reader   pool // the connections of writer on PostgreSQL
	writes   writes

	questions   *batch.Batcher    // shares statements among calls of ChangedSince
	lane        *batch.Lane       // of calls that need a locked row; nil on SQLite
	wal         *sqlite.WAL       // nil on PostgreSQL
	instances   *notify.Instances // nil on SQLite
	subscriber  atomic.Pointer[func(own bool)]
	serverClock bool // times in rows come from the database's clock
	schema      storedSchema
	noteTo      func(text string)
}

// writes runs writes that may share a transaction; see Store.apply.
type writes interface {
	// Apply runs the write of a job. It returns ErrBusy if the write has not begun by giveUp, and ErrTimeout after the job's deadline.
	Apply(ctx context.Context, j *batch.Job, giveUp time.Time) error
	Close()
}

// pool is a connection pool, with the limiter of its connections and the timings of its calls.
type pool struct {
	gorm    *gorm.DB
	sql     *sql.DB
	limiter batch.Limiter
	timings timings
	// readsOnly means that calls change nothing, so that one with a lost connection is repeated. SQLite loses none.
	readsOnly bool
	// enforceDeadline means that a running statement is cancelled at the call's deadline. SQLite's writer has none: a cancelled statement
	// would roll back the writes of others.
	enforceDeadline bool
}

// Open prepares a Store without connecting: only Migrate and Ready show that a database is away. It refuses a URL that can never work.
func Open(o Options) (*Store, error) {
	s := &Store{options: o}
	s.options.MaxWait = min(cmp.Or(o.MaxWait, time.Second), o.Timeout/2)
	if o.Now == nil {
		s.options.Now = time.Now
	}
	var err error
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		err = s.openSQLite(path)
	} else {
		err = s.openPostgres()
	}
	if err != nil {
		return nil, err
	}
	// One statement at a time: calls that come meanwhile share the next.
	s.questions = batch.New(questions{s, s.reader.limiter.(batch.Connections)}, true)
	s.serverClock = o.Now == nil && s.server != nil
	return s, nil
}

// newPool puts GORM over a pool whose connections limiter shares. GORM makes no transaction around a single statement or inside another
// transaction. It prepares nothing, because that breaks behind PgBouncer, logs nothing, because bound values include tokens, and names the
// columns, because a prepared statement with * fails when a later version adds one.
func newPool(db *sql.DB, dialector gorm.Dialector, limiter batch.Limiter) (pool, error) {
	g, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction:   true,
		DisableAutomaticPing:     true,
		DisableNestedTransaction: true,
		QueryFields:              true,
		Logger:                   logger.Discard,
	})
	return pool{gorm: g, sql: db, limiter: limiter, enforceDeadline: true}, err
}

// Close closes all connections. Before that it notifies other instances of the last writes, for up to two seconds.
func (s *Store) Close() error {
	if s.instances != nil {
		s.instances.Close()
	}
	if s.wal != nil {
		s.wal.Close()
	}
	s.questions.Close()
	s.writes.Close()
	return errors.Join(s.writer.sql.Close(), s.reader.sql.Close())
}

// Pools returns the connection pools by name, for metrics.
func (s *Store) Pools() map[string]*sql.DB {
	return map[string]*sql.DB{s.writer.timings.pool: s.writer.sql, s.reader.timings.pool: s.reader.sql}
}

// WAL returns the write-ahead log of SQLite, for metrics; nil on PostgreSQL.
func (s *Store) WAL() *sqlite.WAL { return s.wal }

// Timings returns the metrics of each pool: the times of calls in the queue for a connection and after it, calls that are queued now, and
// errors by class. All the time of a call that got no connection counts as queued.
func (s *Store) Timings() []prometheus.Collector {
	all := s.writer.timings.collectors()
	if s.reader.sql != s.writer.sql {
		all = append(all, s.reader.timings.collectors()...)
	}
	return all
}

// LogTo sets the log for events of no request: a SQLite file takes no writes, takes them again, or has a log that cannot be emptied.
func (s *Store) LogTo(log *slog.Logger) {
	if s.file != nil {
		s.file.LogTo(log)
	}
}

// Timeout returns that of Options.
func (s *Store) Timeout() time.Duration { return s.options.Timeout }

// MaxWait bounds the queue of one call for a connection.
func (s *Store) MaxWait() time.Duration { return s.options.MaxWait }

// SessionPolicy returns that of Options.
func (s *Store) SessionPolicy() SessionPolicy { return s.options.Sessions }

// Ready reports whether the database responds within a second and can be written to. It does not queue behind other calls: a busy pool is
// no reason to take an instance out of service, a dead one is. After a failed write, as to a full disk, a write must succeed first.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(time.Second, s.options.Timeout))
	defer cancel()
	return s.database.ready(s.reader.gorm.WithContext(ctx))
}

// UseCredentials makes new connections use the user and password of a URL that is otherwise that of Options. It closes idle connections at
// once, and the others after their work. After ErrFixedURL or ErrCredentials nothing has changed. It must not be called concurrently.
func (s *Store) UseCredentials(ctx context.Context, text string) (c postgres.Credentials, err error) {
	if s.server == nil {
		if text != s.options.URL {
			err = postgres.ErrFixedURL
		}
		return c, err
	}
	return s.server.UseCredentials(ctx, text)
}

// Readers is the number of connections that read.
func (s *Store) Readers() int { return s.reader.sql.Stats().MaxOpenConnections }
