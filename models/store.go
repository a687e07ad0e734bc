// Package models keeps users, events and RSVPs in SQLite or PostgreSQL. Races are decided by the database: by one
// conditional UPDATE or one unique key, never by anything that an instance holds in memory.
package models

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Options of a Store.
type Options struct {
	// URL is sqlite:PATH or postgres://…; pgx reads the latter whole, several hosts and all settings included.
	URL string
	// MaxConns is the size of the PostgreSQL pool, at least 1.
	MaxConns int
	// Timeout bounds all database work of one call, retries and waiting for a connection included. The latter takes
	// at most half of it, and never more than a second.
	Timeout time.Duration
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
	wal     *WAL // nil on PostgreSQL
	// instances are nil on SQLite.
	instances  *Instances
	subscriber atomic.Pointer[func(Source, ...Hint)]
	timeout    time.Duration
	now        func() time.Time
	policy     SessionPolicy
	file       *databaseFile // nil on PostgreSQL
	// serverClock means that the database's clock is used where rows keep the time of writing.
	serverClock bool
	lists       sync.Map // the text of a list's queries, by listQuery
	seed        int64    // of fingerprints: nobody can make two lists with one fingerprint, not knowing it
	sick        sickness
	newerSchema atomic.Int64
}

// pool is a connection pool and how its connections are shared.
type pool struct {
	gorm *gorm.DB
	sql  *sql.DB
	// limiter shares the connections.
	limiter limiter
	timings timings
	// enforceDeadline means that running statements are cancelled at the call's deadline.
	enforceDeadline bool
}

// dialect is all that differs between the databases. Statements are otherwise the same.
type dialect struct {
	// name of the database, of its folder below migrations, and of its pools in metrics.
	name  string
	goose goose.Dialect
	// isFile means that the database is a file, and not a server that may be away.
	isFile bool
	// writableQuery selects true when the database can be written to.
	writableQuery string
	// probe writes something and takes it back; nil where errSick is not known.
	probe func(tx *gorm.DB) error
	// oldSchemaQuery selects true in a database of a version that cannot be carried along.
	oldSchemaQuery string
	// hasTableQuery selects whether there is a table of the name that is its parameter.
	hasTableQuery string
	// migrationSettings are statements that each migration begins with.
	migrationSettings string
	// connect prepares a pool of connections. It makes none yet.
	connect func() (*sql.DB, error)
	// timedOut is called after a call that has run out of time; nil where that tells nothing of the connections.
	timedOut func()
	// gorm is how GORM uses such a pool.
	gorm func(db *sql.DB) gorm.Dialector
	// positionQuery selects a signed integer that changes whenever a write becomes visible; empty for a file.
	positionQuery string
	// beside prepares connections beside the pool, which call hear with each notification; nil for a file.
	beside func(hear func(*pgconn.Notification)) (*connector, error)
	// check fails, in words for the operator, on a server that the service cannot work with; nil where there is none.
	check func(tx *gorm.DB) error
	// joinUsernames aggregates usernames into one text, with line feeds between them.
	joinUsernames string
	// blob is the type of bytes.
	blob string
	// usernames is the SQL for up to largeRSVPs+1 usernames of event e in joining order, separated by line feeds; NULL if
	// there are none. The extra one marks the event as large.
	usernames string
	// fingerprint is the SQL for a signed integer that stands for an event with its usernames. Its one parameter is the
	// store's seed. It is empty where there are no fingerprints.
	fingerprint string
	// anyOf is the SQL after a column that tests membership in a parameter of type ids.
	anyOf string
	// rows runs a query of a list's batch on the connection pool of tx itself, past GORM, and calls each with every row,
	// until it wants no more. The query selects an event's id or a user's number, a time, and then the texts of a listRow.
	rows func(tx *gorm.DB, query string, args []any, each func(*listRow) (more bool)) error
	// create stores an event and its creator's RSVP, both or neither. It returns ErrSignedOut.
	create func(tx *gorm.DB, caller Caller, e Event, now any) error
	// withMigrationLock runs fn while no other process does the same.
	withMigrationLock func(tx *gorm.DB, fn func() error) error
}

// Open prepares a Store. It does not connect: a database that is away shows in Migrate and Ready. An error means
// that the URL can never work.
func Open(o Options) (*Store, error) {
	s := &Store{timeout: o.Timeout, now: o.Now, policy: o.Sessions}
	s.seed = randomNumber()
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		s.file = newDatabaseFile(path)
		s.dialect = sqliteDialect(s.file, o.Timeout)
		err = s.openSQLite(path)
	} else {
		if s.dialect, err = postgresDialect(o.URL, o.Timeout); err == nil {
			s.writer, err = newPool(s.dialect, o.MaxConns)
		}
		s.reader = s.writer
	}
	if err == nil && s.dialect.beside != nil {
		s.instances, err = newInstances(s.dialect.beside)
	}
	if err != nil {
		return nil, err
	}
	if s.writer.timings = newTimings(s.dialect.name + "_write"); s.reader.sql == s.writer.sql {
		s.writer.timings = newTimings(s.dialect.name)
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

// randomNumber returns one that nobody can guess.
func randomNumber() int64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return int64(binary.NativeEndian.Uint64(b[:]))
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
	return pool{gorm: g, sql: db, limiter: semaphoreLimiter{semaphore.NewWeighted(int64(n))}, enforceDeadline: true}, err
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
		s.instances.close()
	}
	if s.wal != nil {
		s.wal.close()
	}
	if s.file != nil {
		s.file.close()
	}
	s.writer.limiter.close()
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
func (s *Store) WAL() *WAL { return s.wal }

// Timings returns histograms, in seconds, of how long calls waited for a connection and of how long they took then. A
// call that got none in time counts as waiting.
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
		s.file.logTo(log)
	}
}

// Timeout is what Options said.
func (s *Store) Timeout() time.Duration { return s.timeout }

// SessionPolicy is what Options said.
func (s *Store) SessionPolicy() SessionPolicy { return s.policy }

// Ready reports whether the database answers within a second and can be written to. It does not queue behind other
// calls: a busy pool is no reason to take an instance out of service, a dead one is. Once a write has failed for want of
// room or the like, it wants a write to succeed first: on PostgreSQL one of its own, on SQLite the probe's.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(time.Second, s.timeout))
	defer cancel()
	if s.file != nil {
		if err := s.file.ready(); err != nil {
			return err
		}
	}
	var writable bool
	err := whileCrowded(ctx, func() error {
		return classify(scan(s.reader.gorm.WithContext(ctx).Raw(s.dialect.writableQuery), &writable))
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
	return s.sick.cure(func() error { return classify(s.dialect.probe(s.writer.gorm.WithContext(ctx))) })
}

// maxAttempts is how often a call is tried when the database says that the transaction must be repeated.
const maxAttempts = 4

// Deadline is the key of a context's value, a time.Time, that bounds all calls of a Store with that context together;
// zero bounds nothing. It is a value, and no deadline of the context, because each of those costs a timer.
type Deadline struct{}

// write runs fn, one statement or one whole transaction, on a connection that may write, within the store's timeout,
// waiting for the connection included, and before the deadlines of ctx. It repeats fn when the database asks for it
// (SQLSTATE 40001 and 40P01) and for no other reason. Once fn has begun it is not cut short by the caller going away:
// cancelling would cost the pool a connection.
func (s *Store) write(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.run(ctx, s.writer, s.maxWait(), fn)
}

// read is write on a connection that need not be able to write.
func (s *Store) read(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.run(ctx, s.reader, s.maxWait(), fn)
}

// maxWait is how long a call waits for a connection.
func (s *Store) maxWait() time.Duration { return min(time.Second, s.timeout/2) }

// run is write on a connection of p, for which it waits up to maxWait.
func (s *Store) run(ctx context.Context, p pool, maxWait time.Duration, fn func(tx *gorm.DB) error) error {
	begun := time.Now()
	deadline := begun.Add(s.timeout)
	if d, ok := ctx.Value(Deadline{}).(time.Time); ok && !d.IsZero() && d.Before(deadline) {
		deadline = d
	}
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	var started time.Time // zero if it never was
	err := p.limiter.do(ctx, deadline, maxWait, func() error {
		if started = time.Now(); !started.Before(deadline) {
			return ErrTimeout
		}
		work, cancel := context.WithoutCancel(ctx), context.CancelFunc(func() {})
		if p.enforceDeadline {
			work, cancel = context.WithDeadline(work, deadline)
		}
		defer cancel()
		err := s.attempt(work, p, fn)
		if errors.Is(err, errCrowded) {
			err = s.attemptWhileCrowded(work, p, begun.Add(maxWait), fn)
		}
		return err
	})
	p.timings.observe(begun, started, err)
	s.note(err)
	return err
}

// attempt runs fn, and repeats it while the database asks for that, until ctx ends.
func (s *Store) attempt(ctx context.Context, p pool, fn func(tx *gorm.DB) error) error {
	for n := 1; ; n++ {
		err := classify(fn(p.gorm.Session(&gorm.Session{NewDB: true, Context: ctx})))
		if n == maxAttempts || !errors.Is(err, errSerialize) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrTimeout, err)
		case <-time.After(time.Duration(n*n) * 5 * time.Millisecond):
		}
	}
}

// attemptWhileCrowded is attempt again and again until giveUp while the server takes no more connections: one of the pool
// may come free, or another client may end.
func (s *Store) attemptWhileCrowded(ctx context.Context, p pool, giveUp time.Time, fn func(tx *gorm.DB) error) error {
	wait, cancel := context.WithDeadline(ctx, giveUp)
	defer cancel()
	return whileCrowded(wait, func() error { return s.attempt(ctx, p, fn) })
}

// whileCrowded calls fn again as long as it returns errCrowded, until ctx ends.
func whileCrowded(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		if !errors.Is(err, errCrowded) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(crowdedInterval / 10):
		}
	}
}

// note remembers what an error says about the database.
func (s *Store) note(err error) {
	switch {
	case err == nil:
	case errors.Is(err, errSick):
		s.sick.begin()
	case errors.Is(err, ErrUnwritable) && s.file != nil:
		s.file.fail(err)
	case errors.Is(err, ErrTimeout) && s.dialect.timedOut != nil:
		s.dialect.timedOut()
	}
}

// scan runs a query that Raw has built and reads the columns of its only row into dest. The error is sql.ErrNoRows if
// there is none. On PostgreSQL the row comes from pgx itself.
func scan(query *gorm.DB, dest ...any) error {
	if query.Error != nil {
		return query.Error
	}
	if p, ok := query.Statement.ConnPool.(pgxPool); ok {
		return p.scanRow(query.Statement, dest)
	}
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	return cmp.Or(rows.Close(), rows.Err())
}

// transaction is write for several statements that are done all or not at all.
func (s *Store) transaction(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.write(ctx, func(tx *gorm.DB) error { return tx.Transaction(fn) })
}

// timestamp is the time of writing, as a parameter of a statement.
func (s *Store) timestamp() any { return s.after(0) }

// after is a time so long after that of writing, as a parameter of a statement. A server that has a clock uses that, unless
// Options.Now is set: one clock orders the RSVPs of all instances, and says which sessions have expired.
func (s *Store) after(d time.Duration) any {
	switch {
	case s.serverClock && d == 0:
		return serverNow
	case s.serverClock:
		return expr{"clock_timestamp() + CAST(? AS interval)", []any{d}}
	}
	then := s.now().UTC().Truncate(time.Microsecond).Add(d) // what PostgreSQL keeps
	if s.dialect.isFile {
		return then
	}
	return expr{"CAST(? AS timestamptz)", []any{then}}
}

var serverNow any = expr{sql: "clock_timestamp()"}
