package postgres

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// madeConn is a connection of a test.
type madeConn struct {
	driver.Conn
	closed chan struct{}
	broken bool
}

func (c *madeConn) Close() error {
	close(c.closed) // and panics the second time
	return nil
}

// attemptsModel is what attempts must be like: callers come and leave, and attempts succeed and fail, in any order.
type attemptsModel struct {
	a                                *attempts
	asked                            chan chan attempted // an attempt begins
	running                          []*runningAttempt
	waiting                          map[*modelCaller]bool
	spares                           []*madeConn
	came, limit, successes, failures int
}

type runningAttempt struct {
	came, successes int
	end             chan attempted
}

type modelCaller struct {
	n     int
	late  bool // there is too little time to use a connection
	until time.Time
	leave context.CancelFunc
	got   chan attempted
}

// modelTimeout is so long that no attempt is overdue. A caller who leaves in less than an eighth of it has no time to use a connection.
const modelTimeout = 20 * time.Minute

var errRefused = errors.New("refused")

// expect looks at what a caller gets, once everybody waits for something else.
func (c *modelCaller) expect(t *rapid.T, conn driver.Conn, err error) {
	synctest.Wait()
	select {
	case r := <-c.got:
		if r.conn != conn || !errors.Is(r.err, err) {
			t.Fatalf("caller %d got %v and %v, want %v and %v", c.n, r.conn, r.err, conn, err)
		}
	default:
		t.Fatalf("caller %d got nothing, want %v and %v", c.n, conn, err)
	}
}

func (m *attemptsModel) come(t *rapid.T) {
	m.came++
	minutes := rapid.IntRange(1, 5).Draw(t, "minutes left")
	until := time.Now().Add(time.Duration(minutes) * time.Minute)
	ctx, cancel := context.WithDeadline(context.Background(), until)
	if minutes == 5 {
		until = time.Now().Add(3 * modelTimeout)
		ctx, cancel = context.WithCancel(context.Background())
	}
	c := &modelCaller{m.came, minutes < 3, until, cancel, make(chan attempted, 1)}
	go func() {
		conn, err := m.a.take(ctx)
		c.got <- attempted{conn, err}
	}()
	synctest.Wait() // until it has a spare, or waits
	for len(m.spares) > 0 && m.spares[0].broken {
		<-m.spares[0].closed
		m.spares = m.spares[1:]
	}
	if len(m.spares) > 0 {
		m.came-- // it does not wait
		c.expect(t, m.spares[0], nil)
		m.spares = m.spares[1:]
		return
	}
	m.waiting[c] = true
}

func (m *attemptsModel) leave(t *rapid.T) {
	c := rapid.SampledFrom(m.callers(t)).Draw(t, "caller")
	c.leave()
	delete(m.waiting, c)
	c.expect(t, nil, context.Canceled)
}

// callers are those who wait, in the order in which they leave.
func (m *attemptsModel) callers(t *rapid.T) []*modelCaller {
	if len(m.waiting) == 0 {
		t.Skip()
	}
	return slices.SortedFunc(maps.Keys(m.waiting), func(a, b *modelCaller) int {
		return cmp.Or(a.until.Compare(b.until), a.n-b.n)
	})
}

// give expects that a caller gets a connection.
func (m *attemptsModel) give(t *rapid.T, conn driver.Conn) {
	all := m.callers(t)
	i := slices.IndexFunc(all, func(c *modelCaller) bool { return !c.late })
	if i < 0 {
		i = len(all) - 1
	}
	delete(m.waiting, all[i])
	all[i].expect(t, conn, nil)
}

func (m *attemptsModel) take(t *rapid.T) *runningAttempt {
	if len(m.running) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(m.running)-1).Draw(t, "attempt")
	r := m.running[i]
	m.running = slices.Delete(m.running, i, i+1)
	return r
}

func (m *attemptsModel) succeed(t *rapid.T) {
	conn := &madeConn{closed: make(chan struct{})}
	m.take(t).end <- attempted{conn, nil}
	m.limit, m.failures = m.limit+1, 0
	m.successes++
	if len(m.waiting) > 0 {
		m.give(t, conn)
	} else {
		m.spares = append(m.spares, conn)
	}
}

func (m *attemptsModel) offer(t *rapid.T) {
	conn := &madeConn{closed: make(chan struct{})}
	m.a.offer(conn)
	if len(m.waiting) > 0 {
		m.give(t, conn)
	} else {
		<-conn.closed
	}
}

func (m *attemptsModel) fail(t *rapid.T) {
	r := m.take(t)
	r.end <- attempted{nil, errRefused}
	if r.successes != m.successes {
		return
	}
	m.limit = fewAttempts
	m.failures++
	if len(m.waiting) == 0 {
		return
	}
	told := 0
	for _, c := range m.callers(t) {
		if c.n <= r.came && (told == 0 || m.failures >= failuresForAll) {
			told++
			delete(m.waiting, c)
			c.expect(t, nil, errRefused)
		}
	}
}

// spoil breaks a spare, which nobody gets then.
func (m *attemptsModel) spoil(t *rapid.T) {
	if len(m.spares) == 0 {
		t.Skip()
	}
	rapid.SampledFrom(m.spares).Draw(t, "spare").broken = true
}

// check compares, once nothing happens any more, and knows the attempts that have begun from then on.
func (m *attemptsModel) check(t *rapid.T) {
	synctest.Wait()
	running := max(len(m.running), min(len(m.waiting), m.limit))
	m.a.mu.Lock()
	got := []int{m.a.running, m.a.limit, len(m.a.spares), m.a.failures, int(m.a.came)}
	m.a.mu.Unlock()
	if want := []int{running, m.limit, len(m.spares), m.failures, m.came}; !slices.Equal(got, want) {
		t.Fatalf("attempts that run, their limit, spares, failures, callers: %d, want %d", got, want)
	}
	for len(m.running) < running {
		m.running = append(m.running, &runningAttempt{m.came, m.successes, <-m.asked})
	}
}

// Every connection serves a caller, a later one, or is closed. Errors go to those who came before the attempt began: to one, or to
// all when others have failed, too. As many attempts run as callers wait, but few after a failure.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, testAttempts) // whose Deadline may not be asked for in a bubble
	})
}

func testAttempts(t *rapid.T) {
	m := &attemptsModel{asked: make(chan chan attempted), waiting: make(map[*modelCaller]bool), limit: anyAttempts}
	m.a = &attempts{
		connect: func() (driver.Conn, error) {
			end := make(chan attempted)
			m.asked <- end
			r := <-end
			return r.conn, r.err
		},
		fit: func(_ context.Context, conn driver.Conn) error {
			if conn.(*madeConn).broken {
				return errRefused
			}
			return nil
		},
		timeout: modelTimeout, patience: modelTimeout,
		limit: anyAttempts,
	}
	t.Repeat(map[string]func(*rapid.T){
		"come": m.come, "come, too": m.come, "leave": m.leave, "succeed": m.succeed, "fail": m.fail, "offer": m.offer, "spoil": m.spoil, "": m.check,
	})
	m.a.stop()
	for len(m.running) > 0 {
		if len(m.waiting) > 0 {
			m.fail(t)
			m.check(t)
			continue
		}
		conn := &madeConn{closed: make(chan struct{})}
		m.take(t).end <- attempted{conn, nil}
		<-conn.closed
	}
	for _, conn := range m.spares {
		<-conn.closed
	}
}

// An attempt that takes long does not keep another from beginning: the server that it waits for may be gone, and another one there.
func TestAttemptsAreOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var begun atomic.Int64
		a := &attempts{
			connect: func() (driver.Conn, error) {
				if begun.Add(1) <= 5 {
					<-end
					return nil, errRefused
				}
				return &madeConn{closed: make(chan struct{})}, nil
			},
			timeout: 2 * time.Second, patience: time.Second,
			limit: anyAttempts,
		}
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		for range 5 {
			go a.take(ctx)
		}
		time.Sleep(950 * time.Millisecond)
		begin := time.Now()
		if conn, err := a.take(t.Context()); conn == nil || err != nil {
			t.Error(conn, err)
		}
		if took := time.Since(begin); took != 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
		close(end)
		synctest.Wait()
		if a.running != 0 {
			t.Errorf("%d attempts run", a.running)
		}
	})
}
