package postgres

import (
	"context"
	"database/sql/driver"
	"slices"
	"sync"
	"time"
)

// attempts makes connections for callers who wait. An attempt does not belong to the caller who caused it: when
// that one leaves, the connection serves another. Otherwise a server that takes longer to make a connection than
// callers wait for it would make all of them in vain.
//
// After an attempt has failed only a few run at once, and one more with each that succeeds. Each costs the server
// a process, or two if it has to refuse TLS first. After an outage a whole pool asks for connections, of each
// instance, and a busy server would have none of them ready in time.
type attempts struct {
	connect func() (driver.Conn, error)
	// fit returns an error for a spare that cannot be used any more. keep is how long a spare is kept.
	fit  func(context.Context, driver.Conn) error
	keep time.Duration

	mu      sync.Mutex
	running int
	limit   int           // of attempts that run at once
	came    uint64        // how many have waited so far
	waiting []waiting     // who leaves first comes first
	spares  []driver.Conn // for which nobody waited any more
	stopped bool
}

// never is later than any caller leaves.
const never = time.Hour

const (
	fewAttempts = 2       // run at once after one has failed
	anyAttempts = 1 << 20 // may run at once while all is well; the pool is smaller
)

// waiting is a caller who waits for the result of an attempt, the nth who came.
type waiting struct {
	n     uint64
	until time.Time // when the caller leaves
	made  chan<- attempted
}

// attempted is what came of an attempt.
type attempted struct {
	conn driver.Conn
	err  error
}

// take returns a connection, the error of an attempt, or that of ctx.
func (a *attempts) take(ctx context.Context) (driver.Conn, error) {
	for conn := a.spare(); conn != nil; conn = a.spare() {
		if a.fit(ctx, conn) == nil {
			return conn, nil
		}
		conn.Close()
	}
	made := make(chan attempted, 1)
	n := a.wait(ctx, made)
	select {
	case r := <-made:
		return r.conn, r.err
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.IndexFunc(a.waiting, func(w waiting) bool { return w.n == n }); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		return nil, ctx.Err()
	}
	r := <-made // it came at this very moment
	return r.conn, r.err
}

// wait begins to wait, and begins an attempt unless enough of them run.
func (a *attempts) wait(ctx context.Context, made chan<- attempted) (n uint64) {
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(never)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.came++
	i := slices.IndexFunc(a.waiting, func(w waiting) bool { return w.until.After(until) })
	if i < 0 {
		i = len(a.waiting)
	}
	a.waiting = slices.Insert(a.waiting, i, waiting{a.came, until, made})
	a.begin()
	return a.came
}

// begin begins as many attempts as callers wait for, up to the limit. The caller holds a.mu.
func (a *attempts) begin() {
	for a.running < min(len(a.waiting), a.limit) {
		a.running++
		came := a.came
		go func() {
			conn, err := a.connect()
			a.end(attempted{conn, err}, came)
		}()
	}
}

// end gives a connection, or the first error, to one caller: others may fare better. When the next attempt fails,
// too, all who came before it began get its error.
func (a *attempts) end(r attempted, came uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	switch {
	case r.err != nil && a.limit > fewAttempts:
		a.limit = fewAttempts
		a.give(r)
	case r.err != nil:
		a.waiting = slices.DeleteFunc(a.waiting, func(w waiting) bool {
			if w.n > came {
				return false
			}
			w.made <- r
			return true
		})
	case a.give(r):
		a.limit = min(a.limit+1, anyAttempts)
	case a.stopped:
		r.conn.Close()
	default:
		a.spares = append(a.spares, r.conn)
		time.AfterFunc(a.keep, func() { a.drop(r.conn) })
	}
	a.begin()
}

// offer gives away a connection that was made for another reason, and closes it if nobody waits for one.
func (a *attempts) offer(conn driver.Conn) {
	a.mu.Lock()
	given := a.give(attempted{conn, nil})
	a.mu.Unlock()
	if !given {
		conn.Close()
	}
}

// give gives a result to the caller who leaves first, if anybody waits. The caller of give holds a.mu.
func (a *attempts) give(r attempted) bool {
	if len(a.waiting) == 0 {
		return false
	}
	a.waiting[0].made <- r
	a.waiting = a.waiting[1:]
	return true
}

// spare takes a connection for which nobody waited, nil if there is none.
func (a *attempts) spare() driver.Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.spares) == 0 {
		return nil
	}
	conn := a.spares[0]
	a.spares = a.spares[1:]
	return conn
}

// drop closes a spare, unless somebody took it.
func (a *attempts) drop(conn driver.Conn) {
	a.mu.Lock()
	i := slices.Index(a.spares, conn)
	if i >= 0 {
		a.spares = slices.Delete(a.spares, i, i+1)
	}
	a.mu.Unlock()
	if i >= 0 {
		conn.Close()
	}
}

// stop closes the spares. Attempts that end later keep none.
func (a *attempts) stop() {
	a.mu.Lock()
	spares := a.spares
	a.spares, a.stopped = nil, true
	a.mu.Unlock()
	for _, conn := range spares {
		conn.Close()
	}
}
