package models

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
	"worldevents/models/internal/notify"
	"worldevents/models/internal/postgres"
	"worldevents/models/internal/schema"
)

var postgresDialect = dialect{
	blob:      "bytea",
	usernames: joinedUsernames(`string_agg(username, E'\n')`, `E'\n'`),
	randomID:  "gen_random_uuid()",
	anyOf:     "= ANY (ARRAY (SELECT CAST(jsonb_array_elements_text(CAST(? AS jsonb)) AS uuid)))",
	callers: `(SELECT n, CAST(ids ->> 0 AS uuid) AS user_id, CAST(ids ->> 1 AS uuid) AS session_id
		FROM jsonb_array_elements(CAST(? AS jsonb)) WITH ORDINALITY AS given (ids, n))`,
	questions: `(SELECT n, value ->> 0 AS saw, value ->> 1 AS world
		FROM jsonb_array_elements(CAST(? AS jsonb)) WITH ORDINALITY AS given (value, n))`,
	moments: postgresMoments,
}

// openPostgres prepares the pool, the shared writes, and the notifications of other instances.
func (s *Store) openPostgres() (err error) {
	if s.server, err = postgres.New(s.options.URL, s.options.Timeout); err != nil {
		return err
	}
	db := &postgresDatabase{server: s.server}
	s.database, s.dialect, s.schema.database = db, postgresDialect, schema.Postgres
	if s.writer, err = db.newPool(s.options.MaxConns); err != nil {
		return err
	}
	s.writer.timings = newTimings("postgres")
	s.reader = s.writer
	s.reader.readsOnly = true
	all := s.writer.limiter.(batch.Connections)
	s.lane = batch.NewLane(all, s.writer.timings.errors.WithLabelValues(locked).Inc)
	s.writes = s.server.NewWrites(s.writer.sql, all, s.lane, s.options.Timeout, s.options.MaxWait)
	s.instances = notify.New(s.server, s.notify)
	return nil
}

// notify runs the statement of a notification. It is nobody's call, and counts as none. Half of its time is for the queue.
func (s *Store) notify(ctx context.Context, statement string) error {
	deadline, _ := ctx.Deadline()
	return s.writer.limiter.Do(ctx, deadline, time.Now().Add(time.Until(deadline)/2), func() error {
		_, err := s.writer.sql.ExecContext(ctx, statement)
		if err = dberr.Classify(err); dberr.IsLost(err) {
			s.database.note(err) // a timeout says little: it is shorter than that of calls
		}
		return err
	})
}

type postgresDatabase struct {
	server  *postgres.Server
	failure writeFailure
}

func (d *postgresDatabase) newPool(n int) (pool, error) {
	db, err := d.server.OpenPool(n)
	if err != nil {
		return pool{}, err
	}
	return newPool(db, gormpostgres.New(gormpostgres.Config{Conn: postgres.Pool{DB: db}}), batch.NewConnections(n))
}

func (d *postgresDatabase) note(err error) {
	if errors.Is(err, dberr.ErrCannotWrite) {
		d.failure.note()
	} else {
		d.server.Suspect(err)
	}
}

// ready implements database. After a failed write, as to a full disk, a write of its own has to succeed first: a full server still reads.
func (d *postgresDatabase) ready(tx *gorm.DB) error {
	var writable bool
	err := postgres.WhileFull(tx.Statement.Context, time.Time{}, func() error {
		return dberr.Classify(scan(tx.Raw("SELECT NOT CAST(current_setting('transaction_read_only') AS boolean)"), &writable))
	})
	if err != nil {
		return err
	}
	if !writable {
		return fmt.Errorf("%w: read-only", ErrUnavailable)
	}
	return d.failure.isOver(func() error { return dberr.Classify(probePostgres(tx)) })
}

func (d *postgresDatabase) migrate(tx *gorm.DB, fn func() error) error {
	ctx, pool := tx.Statement.Context, tx.Statement.ConnPool.(postgres.Pool)
	err := pool.WithConn(ctx, func(one *pgx.Conn) error {
		if one.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
			return nil
		}
		return pool.WithConn(ctx, func(other *pgx.Conn) error { return postgres.CheckStatements(ctx, one, other) })
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err) // until the pooler is set otherwise
	}
	var version int
	var encoding string
	err = scan(tx.Raw("SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding')"), &version, &encoding)
	if err == nil {
		err = postgres.Supported(version, encoding)
	}
	if err != nil {
		return err
	}
	return withAdvisoryLock(tx, fn)
}

// withAdvisoryLock runs fn with an advisory lock of a transaction: behind PgBouncer a lock of a session would outlive its client. A waiting
// process asks again every 100 ms, without a connection: otherwise such processes could take all of a small pool, and migrating needs two.
func withAdvisoryLock(tx *gorm.DB, fn func() error) error {
	for {
		var locked bool
		err := tx.Transaction(func(tx *gorm.DB) error {
			if err := tx.Exec(schema.NoLimits).Error; err != nil {
				return err
			}
			if err := scan(tx.Raw("SELECT pg_try_advisory_xact_lock(?)", schema.MigrationLock), &locked); err != nil || !locked {
				return err
			}
			return fn()
		})
		if err != nil || locked {
			return err
		}
		if err := sleep(tx.Statement.Context, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// probePostgres makes the server write to its disk and leaves no trace: it rolls back a temporary table of a few hundred kilobytes. A role
// that may not make one (SQLSTATE 42501) proves nothing, and passes.
func probePostgres(tx *gorm.DB) error {
	err := tx.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("CREATE TEMPORARY TABLE probe AS SELECT n FROM generate_series(1, 10000) n").Error; err != nil {
			return err
		}
		return errProbed
	})
	if errors.Is(err, errProbed) || dberr.IsCode(err, "42501") {
		return nil
	}
	return err
}

// errProbed rolls back a successful probe.
var errProbed = errors.New("probed")

// writeFailure remembers that a server responds but cannot write, as with a full disk.
type writeFailure struct{ last atomic.Pointer[time.Time] } // the last failed write; nil while none fails

// minWriteFailure is the shortest such failure: a probe may find room where a large write finds none.
const minWriteFailure = 2 * time.Second

func (f *writeFailure) note() {
	now := time.Now()
	f.last.Store(&now)
}

// isOver returns nil if no write fails any more, which only a successful probe shows, else ErrCannotWrite, or the error of probe.
func (f *writeFailure) isOver(probe func() error) error {
	last := f.last.Load()
	if last == nil {
		return nil
	}
	if time.Since(*last) < minWriteFailure {
		return dberr.ErrCannotWrite
	}
	if err := probe(); err != nil {
		return err
	}
	f.last.CompareAndSwap(last, nil)
	return nil
}
