// Package models keeps users, events and RSVPs in SQLite or PostgreSQL. Races are decided by the database: by one
// conditional UPDATE or one unique key, never by anything that an instance holds in memory.
package models

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"
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
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Store is the database. Its methods may be called concurrently.
type Store struct {
	dialect dialect
	write   pool
	read    pool // the same as write on PostgreSQL
	timeout time.Duration
	now     func() time.Time
	// serverClock means that the database's clock is used where rows keep the time of writing.
	serverClock bool
	lists       sync.Map // the text of a list's queries, by listQuery
	seed        int64    // of fingerprints: nobody can make two lists with one fingerprint, not knowing it
}

// pool is a connection pool and how its connections are shared.
type pool struct {
	db   *gorm.DB
	sql  *sql.DB
	conn gorm.ConnPool // what statements written by hand run on
	// limiter shares the connections.
	limiter limiter
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
	// open makes a pool of at most n connections.
	open func(n int) (pool, error)
	// bind rewrites ? placeholders for the database ($1, $2, …). Statements contain no literal ?.
	bind func(query string) string
	// joinUsernames aggregates usernames into one text, with line feeds between them.
	joinUsernames string
	// timestamp is an expression for the time of writing, with Store.writeTime as its parameter.
	timestamp string
	// keepKey follows a query for a user: nobody can rename the user until the end of the transaction.
	keepKey string
	// check fails, in words for the operator, on a server that the service cannot work with; nil where there is none.
	check func(ctx context.Context, db *sql.DB) error
	// usernames is the SQL for up to largeRSVPs+1 usernames of event e in joining order, separated by line feeds; NULL if
	// there are none. The extra one marks the event as large.
	usernames string
	// fingerprint is the SQL for a signed integer that stands for an event with its usernames. Its one parameter is the
	// store's seed. It is empty where there are no fingerprints.
	fingerprint string
	// anyOf is the SQL after a column that tests membership in an array parameter; arrayArg encodes the parameter.
	anyOf    string
	arrayArg func(ids []string) any
	// exec runs a statement and returns how many rows it touched.
	exec func(t try, query string, args []any) (int64, error)
	// row runs a query for one row, at the latest when it is scanned. The error is sql.ErrNoRows if there is none.
	row func(t try, query string, args []any) scanner
	// rows runs a query of a list's batch and calls each with every row, until it wants no more. The query selects an id,
	// a time, and then the texts of a listRow.
	rows func(t try, query string, args []any, each func(*listRow) (more bool)) error
	// create stores an event and its creator's RSVP, both or neither. It returns ErrNoUser for an unknown creator.
	create func(t try, e Event) error
	// withMigrationLock runs fn while no other process does the same.
	withMigrationLock func(ctx context.Context, db *sql.DB, fn func() error) error
}

// Open prepares a Store. It does not connect: a database that is away shows in Migrate and Ready. An error means
// that the URL can never work.
func Open(o Options) (*Store, error) {
	s := &Store{timeout: o.Timeout, now: o.Now}
	var seed [8]byte
	rand.Read(seed[:])
	s.seed = int64(binary.NativeEndian.Uint64(seed[:]))
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	if path, ok := strings.CutPrefix(o.URL, "sqlite:"); ok {
		s.dialect = sqliteDialect(path, o.Timeout)
		if s.write, err = s.dialect.open(1); err == nil {
			s.read, err = s.dialect.open(sqliteReaders)
		}
	} else {
		if s.dialect, err = postgresDialect(o.URL, o.Timeout); err == nil {
			s.write, err = s.dialect.open(o.MaxConns)
		}
		s.read = s.write
	}
	if err != nil {
		return nil, err
	}
	s.serverClock = o.Now == nil && !s.dialect.isFile
	// The inner LIMIT keeps the order, and a large event from being read whole.
	s.dialect.usernames = fmt.Sprintf(`
		(SELECT %s FROM (
			SELECT username FROM rsvps WHERE event_id = e.id ORDER BY created_at, user_id LIMIT %d
		) first)`, s.dialect.joinUsernames, largeRSVPs+1)
	return s, nil
}

// newPool puts GORM over db. Statements run without GORM's implicit transaction (one statement is one anyway),
// without its prepared statements (they break behind PgBouncer; pgx has its own) and without its logger (it prints
// bound values, tokens among them).
func newPool(dialector gorm.Dialector, db *sql.DB, n int) (pool, error) {
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	g, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard,
	})
	return pool{db: g, sql: db, conn: db, limiter: semaphoreLimiter{semaphore.NewWeighted(int64(n))}, enforceDeadline: true}, err
}

// Close closes all connections.
func (s *Store) Close() error {
	s.write.limiter.close()
	return errors.Join(s.write.sql.Close(), s.read.sql.Close())
}

// Pools returns the connection pools by name, for metrics.
func (s *Store) Pools() map[string]*sql.DB {
	if s.read.sql == s.write.sql {
		return map[string]*sql.DB{s.dialect.name: s.write.sql}
	}
	return map[string]*sql.DB{s.dialect.name + "_write": s.write.sql, s.dialect.name + "_read": s.read.sql}
}

// Timeout is what Options said.
func (s *Store) Timeout() time.Duration { return s.timeout }

// Ready reports whether the database answers within a second and can be written to. It does not queue behind other
// calls: a busy pool is no reason to take an instance out of service, a dead one is.
func (s *Store) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(time.Second, s.timeout))
	defer cancel()
	var writable bool
	if err := classify(s.read.sql.QueryRowContext(ctx, s.dialect.writableQuery).Scan(&writable)); err != nil {
		return err
	}
	if !writable {
		return fmt.Errorf("%w: read-only", ErrUnavailable)
	}
	return nil
}

// maxAttempts is how often a call is tried when the database says that the transaction must be repeated.
const maxAttempts = 4

// Deadline is the key of a context's value, a time.Time, that bounds all calls of a Store with that context together;
// zero bounds nothing. It is a value, and no deadline of the context, because each of those costs a timer.
type Deadline struct{}

// do runs fn, one statement or one whole transaction, on a connection of p within the store's timeout, waiting for
// the connection included, and before the deadlines of ctx. It repeats fn when the database asks for it (SQLSTATE
// 40001 and 40P01) and for no other reason. Once fn has begun it is not cut short by the caller going away:
// cancelling would cost the pool a connection.
func (s *Store) do(ctx context.Context, p pool, fn func(t try) error) error {
	return s.doWithin(ctx, p, min(time.Second, s.timeout/2), fn)
}

// doWithin is do, waiting for a connection up to maxWait.
func (s *Store) doWithin(ctx context.Context, p pool, maxWait time.Duration, fn func(t try) error) error {
	deadline := time.Now().Add(s.timeout)
	if d, ok := ctx.Value(Deadline{}).(time.Time); ok && !d.IsZero() && d.Before(deadline) {
		deadline = d
	}
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	return p.limiter.do(ctx, deadline, maxWait, func() error {
		if !time.Now().Before(deadline) {
			return ErrTimeout
		}
		work, cancel := context.WithoutCancel(ctx), context.CancelFunc(func() {})
		if p.enforceDeadline {
			work, cancel = context.WithDeadline(work, deadline)
		}
		defer cancel()
		for n := 1; ; n++ {
			err := classify(fn(try{s, p, p.conn, work}))
			if n == maxAttempts || !errors.Is(err, errSerialize) {
				return err
			}
			select {
			case <-work.Done():
				return fmt.Errorf("%w: %w", ErrTimeout, err)
			case <-time.After(time.Duration(n*n) * 5 * time.Millisecond):
			}
		}
	})
}

// try is what one try of a call works with.
type try struct {
	*Store
	pool pool
	conn gorm.ConnPool   // the pool, or a transaction
	ctx  context.Context // ends at the call's deadline, if the pool is watched
}

// gorm is GORM on the same pool. Statements written by hand, for which its callbacks can do nothing, leave it out.
func (t try) gorm() *gorm.DB { return t.pool.db.WithContext(t.ctx) }

// exec runs a statement with ? for parameters and returns how many rows it touched.
func (t try) exec(query string, args ...any) (int64, error) {
	return t.dialect.exec(t, t.dialect.bind(query), args)
}

// row runs a query for one row.
func (t try) row(query string, args ...any) scanner {
	return t.dialect.row(t, t.dialect.bind(query), args)
}

type scanner interface{ Scan(dest ...any) error }

// checkExist fails with ErrNoUser or ErrNoEvent, in this order, when the row is missing. An empty event id asks for the
// user alone.
func (t try) checkExist(userID, eventID string) error {
	var user, event bool
	err := t.row("SELECT EXISTS (SELECT 1 FROM users WHERE id = ?), EXISTS (SELECT 1 FROM events WHERE id = ?)",
		idOrNil(userID), idOrNil(eventID)).Scan(&user, &event)
	switch {
	case err != nil:
		return err
	case !user:
		return ErrNoUser
	case !event && eventID != "":
		return ErrNoEvent
	}
	return nil
}

// missing explains a violated foreign key: with ErrNoUser or ErrNoEvent when that row is gone. When both are there the
// user was renamed while the statement ran, and it must be repeated.
func (t try) missing(violation error, userID, eventID string) error {
	if err := t.checkExist(userID, eventID); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errSerialize, violation)
}

// validID reports whether id has the one form that ids made here have: lower-case UUID text. PostgreSQL would take
// other spellings of the same UUID, and fail on anything else.
func validID(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.String() == id
}

// idOrNil is id, or NULL, which equals no id, when it cannot be one.
func idOrNil(id string) any {
	if validID(id) {
		return id
	}
	return nil
}

// newID makes a UUIDv7 (RFC 9562 section 5.7): new rows land at the end of their index.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make id: %w", err)
	}
	return id.String(), nil
}

// writeTime is nil for a server that has a clock, unless Options.Now is set: then one clock orders the RSVPs of all
// instances.
func (s *Store) writeTime() any {
	if s.serverClock {
		return nil
	}
	return s.timestamp()
}

// timestamp is now in UTC, cut to the microsecond that PostgreSQL keeps.
func (s *Store) timestamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
