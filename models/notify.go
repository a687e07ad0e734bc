package models

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// notifier tells other instances of hints. It gathers them, so that any number of writes costs one notification in a
// notifyInterval; the first after a rest is sent at once. No write ever waits for it.
type notifier struct {
	instance Hint
	conns    *connector
	// send sends hints, and is only called from one goroutine.
	send func(context.Context, []Hint) error
	// disconnect is called at the end.
	disconnect func()
	// renew disconnects if the user or the password was replaced, and is called from the goroutine of send.
	renew func()

	wake    chan struct{} // has room for one: something is pending
	quit    chan struct{}
	stop    func() // closes quit, once
	stopped chan struct{}
	started sync.Once
	ctx     context.Context // of sending
	cancel  context.CancelFunc

	mu      sync.Mutex
	pending map[Hint]struct{}
	lastErr error // why the last sending failed; nil if it did not

	sent, dropped atomic.Uint64
}

const (
	// notifyInterval bounds how much later others hear of a write.
	notifyInterval = 30 * time.Millisecond
	// notifyTimeout bounds one sending on an open connection.
	notifyTimeout = 2 * time.Second
	// maxNotifyDelay bounds the time between two attempts that fail.
	maxNotifyDelay = time.Second
	// flushTimeout bounds how long closing takes while the database does not respond.
	flushTimeout = time.Second
	// maxPending bounds how many hints wait for a database that is away.
	maxPending = 8192
)

func newNotifier(conns *connector, instance Hint) *notifier {
	n := &notifier{
		instance: instance, conns: conns, wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}),
		pending: make(map[Hint]struct{}),
	}
	n.stop = sync.OnceFunc(func() { close(n.quit) })
	n.ctx, n.cancel = context.WithCancel(context.Background())
	var conn *pgconn.PgConn
	n.disconnect = func() {
		if conn != nil {
			disconnect(conn)
			conn = nil
		}
	}
	n.renew = func() {
		if conn != nil && conns.url.isStale(conn) {
			n.disconnect()
		}
	}
	n.send = func(ctx context.Context, hints []Hint) (err error) {
		if conn == nil {
			if conn, err = connectBeside(ctx, conns); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
		defer cancel()
		if _, err = conn.Exec(ctx, notifyStatement(payloads(instance, hints))).ReadAll(); err != nil {
			n.disconnect() // the next one may lead to another server
		}
		return err
	}
	return n
}

// add has a hint sent soon. The first one begins the work.
func (n *notifier) add(hint Hint) {
	n.started.Do(func() { go n.run() })
	n.mu.Lock()
	n.keep(hint)
	n.mu.Unlock()
	n.signal()
}

// signal has what is pending sent, and a stale connection closed.
func (n *notifier) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// keep makes a hint pending, if there is room. The caller holds mu.
func (n *notifier) keep(hint Hint) {
	if _, ok := n.pending[hint]; !ok && len(n.pending) >= maxPending {
		n.dropped.Add(1)
		return
	}
	n.pending[hint] = struct{}{}
}

func (n *notifier) run() {
	defer close(n.stopped)
	defer n.disconnect()
	delay, closing := notifyInterval, false
	for {
		select {
		case <-n.quit:
			closing = true
		case <-n.wake:
		}
		n.renew()
		err := n.sendPending(n.ctx)
		switch {
		case closing && err == nil, n.ctx.Err() != nil:
			return
		case closing:
			time.Sleep(notifyInterval)
			continue
		case err == nil:
			delay = notifyInterval
		default:
			delay = min(2*delay, maxNotifyDelay)
		}
		select {
		case <-n.quit:
		case <-time.After(delay):
		}
	}
}

// sendPending sends what is pending. What it could not send is pending again.
func (n *notifier) sendPending(ctx context.Context) error {
	n.mu.Lock()
	hints := make([]Hint, 0, len(n.pending))
	for hint := range n.pending {
		hints = append(hints, hint)
	}
	clear(n.pending)
	n.mu.Unlock()
	if len(hints) == 0 {
		return nil
	}
	err := n.send(ctx, hints)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastErr = err
	if err == nil {
		n.sent.Add(uint64(len(hints)))
		return nil
	}
	for _, hint := range hints {
		n.keep(hint)
	}
	n.signal()
	return err
}

// err is why the last sending failed.
func (n *notifier) err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastErr
}

// close sends what is pending, within flushTimeout.
func (n *notifier) close() {
	n.started.Do(func() { close(n.stopped) }) // nothing was ever added
	defer time.AfterFunc(flushTimeout, n.cancel).Stop()
	n.stop()
	<-n.stopped
	n.cancel()
}
