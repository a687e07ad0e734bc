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
	// URL is sqlite:PATH or postgres://…. pgx reads the latter with several hosts and all settings.
	URL string
	// MaxConns is the size of the PostgreSQL pool, at least 1.
	MaxConns int
	// Timeout bounds the database work of one call, including retries and the time in the queue for a
	// connection.
	Timeout time.Duration
	// MaxWait bounds how long one call is queued for a connection; zero means a second. It is at most half of
	// Timeout, so that the other half is left for the work.
	MaxWait time.Duration
	// Now is the clock; nil means time.Now. On PostgreSQL nil has one more meaning: the times in rows come from
	// the server's clock.
	Now func() time.Time
	// Sessions is how long sessions last, and how many a user may have.
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
	// questions shares statements among calls of ChangedSince.
	questions *batch.Batcher
	lane      *batch.Lane // of calls that need a locked row; nil on SQLite
	wal       *sqlite.WAL // nil on PostgreSQL
	// instances are nil on SQLite.
	instances  *notify.Instances
	subscriber atomic.Pointer[func(own bool)]
	// serverClock means that times in rows come from the database's clock.
	serverClock bool
	schema      storedSchema
	noteTo      func(text string)
}

// writes runs writes that may share a transaction; see Store.apply.
type writes interface {
	// Apply runs the write of a job. It returns ErrBusy if the write has not begun by giveUp, and ErrTimeout if
	// it has not ended by the job's deadline.
	Apply(ctx context.Context, j *batch.Job, giveUp time.Time) error
	Close()
}

// pool is a connection pool, with what shares its connections and what counts its calls.
type pool struct {
	gorm *gorm.DB
	sql  *sql.DB
	// limiter shares the connections.
	limiter batch.Limiter
	timings timings
	// readsOnly means that calls change nothing, so that one that has lost its connection is repeated. SQLite's lose none.
	readsOnly bool
	// enforceDeadline means that a running statement is cancelled at the call's deadline. The writer of SQLite
	// has none: a cancelled statement would take back the writes of others with it.
	enforceDeadline bool
}

// Open prepares a Store. It does not connect, so that a database that is away shows only in Migrate and Ready.
// An error means that the URL can never work.
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
	// One statement at a time: those who ask meanwhile share the next.
	s.questions = batch.New(questions{s, s.reader.limiter.(batch.Connections)}, true)
	s.serverClock = o.Now == nil && s.server != nil
	return s, nil
}

// newPool puts GORM over a pool whose connections limiter shares. GORM then makes no transaction around a single
// statement or inside another transaction. It prepares nothing, because its prepared statements break behind
// PgBouncer. It does not log, because it would print bound values, and tokens are among them.
func newPool(db *sql.DB, dialector gorm.Dialector, limiter batch.Limiter) (pool, error) {
	g, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction:   true,
		DisableAutomaticPing:     true,
		DisableNestedTransaction: true,
		Logger:                   logger.Discard,
	})
	return pool{gorm: g, sql: db, limiter: limiter, enforceDeadline: true}, err
}

// Close closes all connections. Before that it tells other instances of the last writes, for which it takes up
// to two seconds.
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

// WAL returns the write-ahead log of SQLite, for metrics; nil on PostgreSQL, which empties its own.
func (s *Store) WAL() *sqlite.WAL { return s.wal }

// Timings returns the metrics of each pool: how long calls were queued for a connection, how long they took
// then, how many are queued now, and errors by class. All the time of a call that got no connection counts as
// queued.
func (s *Store) Timings() []prometheus.Collector {
	all := s.writer.timings.collectors()
	if s.reader.sql != s.writer.sql {
		all = append(all, s.reader.timings.collectors()...)
	}
	return all
}

// LogTo sets the log for events that belong to no request: a SQLite file takes no writes, takes them again, or
// has a log that cannot be emptied.
func (s *Store) LogTo(log *slog.Logger) {
	if s.file != nil {
		s.file.LogTo(log)
	}
}

// Timeout is what Options said.
func (s *Store) Timeout() time.Duration { return s.options.Timeout }

// MaxWait bounds how long one call is queued for a connection.
func (s *Store) MaxWait() time.Duration { return s.options.MaxWait }

// SessionPolicy is what Options said.
func (s *Store) SessionPolicy() SessionPolicy { return s.options.Sessions }

// Ready reports whether the database responds within a second and can be written to. It does not queue behind
// other calls: a busy pool is no reason to take an instance out of service, and a dead one is. If a write
// failed because the disk was full or the like, a write that Ready makes has to succeed first.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(time.Second, s.options.Timeout))
	defer cancel()
	return s.database.ready(s.reader.gorm.WithContext(ctx))
}

// UseCredentials makes new connections use the user and the password of a URL, which must otherwise be that of
// Options. It closes idle connections at once, and the others when their work is done. It returns ErrFixedURL
// or ErrCredentials, and then changes nothing. It must not be called concurrently.
func (s *Store) UseCredentials(ctx context.Context, text string) (c postgres.Credentials, err error) {
	if s.server == nil {
		if text != s.options.URL {
			err = postgres.ErrFixedURL
		}
		return c, err
	}
	return s.server.UseCredentials(ctx, text)
}

// Readers is how many connections read.
func (s *Store) Readers() int { return s.reader.sql.Stats().MaxOpenConnections }
