package postgres

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// madeConn is a connection of a test.
type madeConn struct {
	driver.Conn
	closed chan struct{}
}

func (c *madeConn) Close() error {
	close(c.closed) // and panics the second time
	return nil
}

// attemptsModel is what attempts must be like: callers come and leave, and attempts succeed and fail, in any order.
type attemptsModel struct {
	a       *attempts
	asked   chan chan attempted // an attempt begins
	running []*runningAttempt
	waiting map[*modelCaller]bool
	spares  []*madeConn
	came    int
	limit   int
}

type runningAttempt struct {
	came int
	end  chan attempted
}

type modelCaller struct {
	n     int
	until time.Time
	leave context.CancelFunc
	got   chan attempted
}

var errRefused = errors.New("refused")

// expect returns what a caller gets, which must come at once.
func (c *modelCaller) expect(t *rapid.T, conn driver.Conn, err error) {
	select {
	case r := <-c.got:
		if r.conn != conn || !errors.Is(r.err, err) {
			t.Fatalf("caller %d got %v and %v, want %v and %v", c.n, r.conn, r.err, conn, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("caller %d got nothing, want %v and %v", c.n, conn, err)
	}
}

// until waits for something that has begun.
func (m *attemptsModel) until(t *rapid.T, what string, ok func() bool) {
	for begun := time.Now(); ; time.Sleep(10 * time.Microsecond) {
		m.a.mu.Lock()
		done := ok()
		m.a.mu.Unlock()
		if done {
			return
		}
		if time.Since(begun) > 5*time.Second {
			t.Fatal("never: " + what)
		}
	}
}

func (m *attemptsModel) come(t *rapid.T) {
	m.came++
	until := time.Now().Add(time.Duration(rapid.IntRange(1, 4).Draw(t, "minutes left")) * time.Minute)
	ctx, cancel := context.WithDeadline(context.Background(), until)
	if rapid.IntRange(0, 4).Draw(t, "never leaves") == 0 {
		until = time.Now().Add(never)
		ctx, cancel = context.WithCancel(context.Background())
	}
	c := &modelCaller{m.came, until, cancel, make(chan attempted, 1)}
	go func() {
		conn, err := m.a.take(ctx)
		c.got <- attempted{conn, err}
	}()
	if len(m.spares) > 0 {
		m.came-- // it does not wait
		c.expect(t, m.spares[0], nil)
		m.spares = m.spares[1:]
		return
	}
	m.until(t, "the caller waits", func() bool { return m.a.came == uint64(m.came) })
	m.waiting[c] = true
}

func (m *attemptsModel) leave(t *rapid.T) {
	c := rapid.SampledFrom(m.callers(t)).Draw(t, "caller")
	c.leave()
	delete(m.waiting, c)
	c.expect(t, nil, context.Canceled)
}

// callers are those who wait, in the order in which they get connections.
func (m *attemptsModel) callers(t *rapid.T) []*modelCaller {
	if len(m.waiting) == 0 {
		t.Skip()
	}
	return slices.SortedFunc(maps.Keys(m.waiting), func(a, b *modelCaller) int {
		return cmp.Or(a.until.Compare(b.until), a.n-b.n)
	})
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
	if len(m.waiting) == 0 {
		m.spares = append(m.spares, conn)
		m.until(t, "the spare is kept", func() bool { return len(m.a.spares) == len(m.spares) })
		return
	}
	m.limit = min(m.limit+1, anyAttempts)
	c := m.callers(t)[0]
	delete(m.waiting, c)
	c.expect(t, conn, nil)
}

func (m *attemptsModel) offer(t *rapid.T) {
	conn := &madeConn{closed: make(chan struct{})}
	m.a.offer(conn)
	if len(m.waiting) == 0 {
		<-conn.closed
		return
	}
	c := m.callers(t)[0]
	delete(m.waiting, c)
	c.expect(t, conn, nil)
}

func (m *attemptsModel) fail(t *rapid.T) {
	r := m.take(t)
	r.end <- attempted{nil, errRefused}
	if m.limit > fewAttempts {
		m.limit = fewAttempts
		if len(m.waiting) > 0 {
			c := m.callers(t)[0]
			delete(m.waiting, c)
			c.expect(t, nil, errRefused)
		}
		return
	}
	for c := range m.waiting {
		if c.n <= r.came {
			delete(m.waiting, c)
			c.expect(t, nil, errRefused)
		}
	}
}

// check waits for the attempts that have to begin now.
func (m *attemptsModel) check(t *rapid.T) {
	running := max(len(m.running), min(len(m.waiting), m.limit))
	m.until(t, fmt.Sprintf("%d of at most %d attempts run for %d callers", running, m.limit, len(m.waiting)), func() bool {
		return m.a.running == running && m.a.limit == m.limit
	})
	for len(m.running) < running {
		m.running = append(m.running, &runningAttempt{m.came, <-m.asked})
	}
}

// Every connection serves a caller, a later one, or is closed; errors after the first are for all who came before; and as many
// attempts run as callers wait, but few after a failure.
func TestAttempts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &attemptsModel{asked: make(chan chan attempted), waiting: make(map[*modelCaller]bool), limit: anyAttempts}
		m.a = &attempts{
			connect: func() (driver.Conn, error) {
				end := make(chan attempted)
				m.asked <- end
				r := <-end
				return r.conn, r.err
			},
			fit:   func(context.Context, driver.Conn) error { return nil },
			keep:  time.Hour,
			limit: anyAttempts,
		}
		t.Repeat(map[string]func(*rapid.T){
			"come": m.come, "come, too": m.come, "leave": m.leave, "succeed": m.succeed, "fail": m.fail, "offer": m.offer, "": m.check,
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
	})
}
