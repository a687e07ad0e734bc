package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/batch"
	"worldevents/models/internal/dberr"
)

// pipelines is PostgreSQL's Transactor. It sends the statements of a batch together, with one Sync at the end, and the server makes one
// transaction of them (PostgreSQL, "Extended Query" and "Pipelining"). So a batch costs one round trip.
type pipelines struct {
	pool   Pool
	server *Server
	lane   *batch.Lane
	batch.Connections
	timeout, maxWait time.Duration
}

// LockTimeout is how long a shared transaction waits for a lock. It is longer than transactions of writes take, whose locks end with their
// commit. It is shorter than deadlock_timeout, after which PostgreSQL ends one of the transactions that wait for each other: a command
// waits for long, and must never fail because of writes.
//
// Without a lock the transaction continues without the writes that need it, and waits no longer than nextLockTimeout for each other lock:
// the owner of many locked rows would otherwise keep the rest waiting once for each.
const (
	LockTimeout     = 200 * time.Millisecond
	nextLockTimeout = 5 * time.Millisecond
)

func (*pipelines) Close() {}

// Transact implements batch.Transactor. If the server refuses the statement of a write, that write leaves; if for a locked row, all writes
// leave that the lane keeps apart. The others run again at once, together. If the end of the transaction is unknown, all have failed.
func (p *pipelines) Transact(jobs []*batch.Job) {
	slices.SortStableFunc(jobs, func(a, b *batch.Job) int { return batch.Compare(a.Write, b.Write) })
	limit := time.Now().Add(p.timeout)
	if len(jobs) == 1 {
		limit = jobs[0].Deadline // only its caller waits for it
	}
	p.transactUntil(limit, min(LockTimeout, p.timeout/2), jobs)
}

func (p *pipelines) transactUntil(limit time.Time, lockTimeout time.Duration, jobs []*batch.Job) {
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	for len(jobs) > 0 {
		left := time.Until(limit) * 9 / 10 // so that lock_timeout ends the statement before ctx does, which would cost the connection
		var refused *batch.Job
		var err error
		jobs, refused, err = p.send(ctx, min(lockTimeout, left), jobs)
		p.server.Suspect(err) // before any caller returns and comes again
		if refused == nil {
			for _, j := range jobs {
				j.End(err)
			}
			return
		}
		locked := errors.Is(err, dberr.ErrLocked)
		if locked {
			p.lane.Refused(refused.Write.IDs())
			lockTimeout = min(lockTimeout, nextLockTimeout)
		}
		jobs = slices.DeleteFunc(jobs, func(j *batch.Job) bool {
			leaves := j == refused || locked && p.lane.Knows(j.Write.IDs())
			if leaves {
				j.End(err)
			}
			return leaves
		})
	}
}

// send runs a batch in one transaction, and returns after its end. begun are the jobs that had not left before. refused is the job whose
// statement the server refused, if it was one; the others may then run again.
func (p *pipelines) send(ctx context.Context, lockTimeout time.Duration, jobs []*batch.Job) (begun []*batch.Job, refused *batch.Job, err error) {
	err = WhileFull(ctx, time.Now().Add(p.maxWait), func() error {
		return dberr.Classify(p.pool.WithConn(ctx, func(c *pgx.Conn) (err error) {
			if jobs = batch.Begin(jobs); len(jobs) == 0 {
				return nil
			}
			refused, err = readResults(c.SendBatch(ctx, statementsOf(jobs, lockTimeout)), jobs)
			return err
		}))
	})
	return jobs, refused, err
}

// statementsOf puts lock_timeout in front of the statements of a batch: for the transaction, so that it also works behind PgBouncer.
func statementsOf(jobs []*batch.Job, lockTimeout time.Duration) *pgx.Batch {
	statements := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, 1+len(jobs))}
	statements.Queue("SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(max(1, lockTimeout.Milliseconds()), 10))
	for _, j := range jobs {
		st := j.Write.Statements[0]
		statements.Queue(st.SQL, st.Args...)
	}
	return statements
}

// readResults reads the result of each job. They have succeeded only if it returns no error, because it reads the commit last.
func readResults(results pgx.BatchResults, jobs []*batch.Job) (refused *batch.Job, err error) {
	defer results.Close()
	if _, err := results.Exec(); err != nil { // of set_config
		return nil, err
	}
	for _, j := range jobs {
		if j.Changed, err = readResult(results, j.Write.Into); err != nil {
			return refusal(j, err)
		}
	}
	return nil, results.Close()
}

func readResult(results pgx.BatchResults, into []any) (changed bool, err error) {
	if into == nil {
		tag, err := results.Exec()
		return tag.RowsAffected() > 0, err
	}
	err = results.QueryRow().Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// refusal returns j if the server refused its statement for its content, nil if the server could not go on: then no job may be repeated.
func refusal(j *batch.Job, err error) (refused *batch.Job, _ error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return nil, err
	}
	switch class := dberr.ClassOfPostgres(pg.Code); {
	case class == dberr.ErrForeignKey: // the statement found a row that was renamed or removed before its end
		return j, fmt.Errorf("%w: %w", dberr.ErrSerialize, err)
	case class == nil, class == dberr.ErrDuplicate, class == dberr.ErrLocked:
		return j, err
	}
	return nil, dberr.InTransaction(err)
}
