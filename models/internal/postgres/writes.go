package postgres

import (
	"context"
	"database/sql"
	"time"

	"worldevents/models/internal/batch"
)

// Writes runs writes: many in a transaction, and those alone that may have to wait for a locked row.
type Writes struct {
	shared *batch.Batcher
	alone  *pipelines
}

// NewWrites makes writes share transactions on a pool of connections, which others use, too. A write may take timeout, and at most maxWait
// of it while the server takes no more connections.
func (s *Server) NewWrites(pool *sql.DB, all batch.Connections, lane *batch.Lane, timeout, maxWait time.Duration) *Writes {
	p := &pipelines{pool: Pool{pool}, server: s, lane: lane, Connections: all, timeout: timeout, maxWait: maxWait}
	return &Writes{batch.New(p, true), p}
}

// Apply runs the write of j. It returns ErrBusy if the write has not begun or got its lock by giveUp, ErrTimeout after the deadline.
func (w *Writes) Apply(ctx context.Context, j *batch.Job, giveUp time.Time) error {
	shared := func() error { return w.shared.Apply(ctx, j, giveUp) }
	return w.alone.lane.Run(j.Write.IDs(), giveUp, shared, func(in batch.Limiter, patience time.Duration) error {
		j.Reset()
		defer j.Leave()
		return in.Do(ctx, j.Deadline, giveUp, func() error {
			w.alone.transactUntil(j.Deadline, patience, []*batch.Job{j})
			return j.Err
		})
	})
}

// Close waits for running transactions.
func (w *Writes) Close() { w.shared.Close() }
