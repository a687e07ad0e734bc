package postgres

import (
	"context"
	"database/sql/driver"
	"slices"
	"sync"
	"time"
)

// attempts makes connections for callers who wait. An attempt does not belong to the caller who caused it: when
// that one leaves, the connection serves another. Callers often have less time left than a connection takes, and
// a slow server would make connections for nobody.
//
// After an attempt has failed or is overdue, at most two run at once. Each success raises that limit by one. A
// connection costs the server a process, or two if it has to refuse TLS first. After an outage every instance
// fills its pool at once, and a busy server would have no connection ready in time.
type attempts struct {
	connect func() (driver.Conn, error)
	// fit returns an error for a spare that cannot be used any more.
	fit func(context.Context, driver.Conn) error
	// timeout is the time of a request. A spare is kept as long. An attempt is overdue after patience.
	timeout, patience time.Duration

	mu        sync.Mutex
	running   int // how many attempts run that are not overdue
	limit     int // of running
	successes int
	failures  int           // since the last success
	came      uint64        // how many have waited so far
	waiting   []waiting     // who leaves first comes first
	spares    []driver.Conn // that were ready when nobody waited
	stopped   bool
}

const (
	fewAttempts = 2       // run at once after one has failed
	anyAttempts = 1 << 20 // may run at once while all is well; the pool is smaller
	// failuresForAll is from how many failures in a row an error goes to more than one caller.
	failuresForAll = 3
)

// waiting is a caller who waits for the result of an attempt, the nth who came.
type waiting struct {
	n      uint64
	leaves bool
	until  time.Time // the caller's deadline; without one, three timeouts after it came
	made   chan<- attempted
}

// attempt is one that runs.
type attempt struct {
	came      uint64 // what the counters were when it began
	successes int
	uncounted bool // it does not count in running any more
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
	until, leaves := ctx.Deadline()
	if !leaves { // nobody's request; it comes after those that are, but not for ever
		until = time.Now().Add(3 * a.timeout)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.came++
	i := slices.IndexFunc(a.waiting, func(w waiting) bool { return w.until.After(until) })
	if i < 0 {
		i = len(a.waiting)
	}
	a.waiting = slices.Insert(a.waiting, i, waiting{a.came, leaves, until, made})
	a.begin()
	return a.came
}

// begin begins as many attempts as callers wait for, up to the limit. The caller holds a.mu.
func (a *attempts) begin() {
	for a.running < min(len(a.waiting), a.limit) {
		a.running++
		t := &attempt{came: a.came, successes: a.successes}
		overdue := time.AfterFunc(a.patience, func() { a.stopCounting(t) })
		go func() {
			conn, err := a.connect()
			overdue.Stop()
			a.end(t, attempted{conn, err})
		}()
	}
}

// stopCounting makes room for another attempt: t may wait for a server that is gone, while its successor responds.
// t goes on, and its connection is still used.
func (a *attempts) stopCounting(t *attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !t.uncounted {
		t.uncounted = true
		a.running--
		a.limit = fewAttempts
		a.begin()
	}
}

// end gives the result of an attempt to callers, and begins others.
func (a *attempts) end(t *attempt, r attempted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !t.uncounted {
		t.uncounted = true
		a.running--
	}
	switch {
	case r.err != nil:
		a.fail(t, r)
	case !a.give(r):
		a.keep(r.conn)
	}
	if r.err == nil {
		a.limit, a.failures = a.limit+1, 0
		a.successes++
	}
	a.begin()
}

// fail gives the error of an attempt to one caller who came before the attempt began. From the third failure in a
// row it goes to all of these. If another attempt has succeeded meanwhile, the error says nothing of how the server
// is now, and nobody gets it. The caller of fail holds a.mu.
func (a *attempts) fail(t *attempt, r attempted) {
	if t.successes != a.successes {
		return
	}
	a.limit = fewAttempts
	a.failures++
	told := false
	a.waiting = slices.DeleteFunc(a.waiting, func(w waiting) bool {
		if w.n > t.came || told && a.failures < failuresForAll {
			return false
		}
		w.made <- r
		told = true
		return true
	})
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

// give gives a connection to the caller who leaves first of those who have time to use it, or else to the one who
// leaves last. The caller of give holds a.mu.
func (a *attempts) give(r attempted) bool {
	if len(a.waiting) == 0 {
		return false
	}
	soon := time.Now().Add(a.timeout / 8)
	i := slices.IndexFunc(a.waiting, func(w waiting) bool { return !w.leaves || w.until.After(soon) })
	if i < 0 {
		i = len(a.waiting) - 1
	}
	a.waiting[i].made <- r
	a.waiting = slices.Delete(a.waiting, i, i+1)
	return true
}

// keep makes a spare of a connection. The caller holds a.mu.
func (a *attempts) keep(conn driver.Conn) {
	if a.stopped {
		conn.Close()
		return
	}
	a.spares = append(a.spares, conn)
	time.AfterFunc(a.timeout, func() { a.drop(conn) })
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
