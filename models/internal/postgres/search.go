package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

const (
	// headStart is how long a search waits for the current host when another one already takes writes: changing
	// hosts costs all connections.
	headStart = 150 * time.Millisecond
	// minRest is how soon a host is asked again at the earliest, and maxRest at the latest: a standby that
	// refuses may be about to be promoted.
	minRest = 50 * time.Millisecond
	maxRest = 500 * time.Millisecond
)

// search is one look for the host that takes writes. Its result can be read when over is closed.
type search struct {
	over chan struct{}
	host *host
	err  error // the errors of all hosts, if none was found
}

// search begins a search, or returns the one that runs. It lasts until it has found a host, which is the current
// one then, or until all have refused.
func (hs *hosts) search() *search {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.running == nil {
		s := &search{over: make(chan struct{})}
		hs.running = s
		clear(hs.errs)
		go hs.run(s, hs.current)
	}
	return hs.running
}

func (hs *hosts) run(s *search, current *host) {
	defer close(s.over)
	ctx, cancel := context.WithCancel(hs.ctx)
	defer cancel()
	found := hs.askHosts(ctx, current)
	if found.conn != nil {
		defer hs.offer(found.conn)
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.running = nil
	if found.conn == nil {
		s.err = hs.noHost(ctx.Err())
		return
	}
	s.host = found.host
	hs.switchTo(found.host)
}

// answer is a host with a connection to it, or with the reason why there is none.
type answer struct {
	*host
	conn driver.Conn
	err  error
}

// askHosts asks all hosts at once and returns the first that takes writes, but prefers current. As long as some
// host has not responded it asks those that refused again. It returns what it has found, nothing perhaps, once
// every host has refused, or when ctx has ended.
func (hs *hosts) askHosts(ctx context.Context, current *host) (found answer) {
	answers := make(chan answer)
	for _, h := range hs.all {
		go h.ask(ctx, answers)
	}
	waitForCurrent := current != nil
	headStartOver := time.After(headStart)
	for found.conn == nil || waitForCurrent {
		select {
		case a := <-answers:
			waitForCurrent = waitForCurrent && a.host != current
			switch {
			case a.err != nil && hs.haveAllRefused(a):
				return found
			case a.err != nil:
			case found.conn == nil:
				found = a
			case a.host == current:
				found.conn.Close()
				found = a
			default:
				a.conn.Close()
			}
		case <-headStartOver:
			waitForCurrent = false
		case <-ctx.Done():
			return found
		}
	}
	return found
}

// ask makes connections to h until one succeeds or ctx ends. When h has refused, it rests for as long as that
// took. To be asked costs a host a process, and many who search must not take from a busy one the time in which
// it could be promoted.
func (h *host) ask(ctx context.Context, answers chan<- answer) {
	for {
		select {
		case <-time.After(time.Until(h.rested())):
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		conn, err := h.connect(ctx)
		select {
		case answers <- answer{h, conn, err}:
		case <-ctx.Done():
			if err == nil {
				conn.Close()
			}
			return
		}
		switch {
		case err == nil:
			return
		case isTimeout(err):
			h.rest(minRest)
		default:
			h.rest(min(max(minRest, time.Since(begun)), maxRest))
		}
	}
}

// rest keeps searches from asking h for a while.
func (h *host) rest(d time.Duration) {
	h.hosts.mu.Lock()
	defer h.hosts.mu.Unlock()
	h.askAgain = time.Now().Add(d)
}

// rested is when a search may ask h.
func (h *host) rested() time.Time {
	h.hosts.mu.Lock()
	defer h.hosts.mu.Unlock()
	return h.askAgain
}

// haveAllRefused notes an answer and reports whether the last answers of all hosts are refusals. A host that did
// not respond in time has not refused.
func (hs *hosts) haveAllRefused(a answer) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.errs[a.host] = a.err
	for _, h := range hs.all {
		if err := hs.errs[h]; err == nil || isTimeout(err) {
			return false
		}
	}
	return true
}

// noHost is the error of those who search in vain: what the hosts have answered so far, and why they wait no
// longer. The caller holds hs.mu.
func (hs *hosts) noHost(why error) error {
	var errs []error
	for _, h := range hs.all {
		errs = append(errs, hs.errs[h])
	}
	return errors.Join(append(errs, why)...)
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
