package notify

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/postgres"
)

// notifier tells other instances that this one has written. Any number of writes within notifyInterval cost one
// notification; after a quiet time the first is sent at once. No write waits for it.
type notifier struct {
	instance int64
	// send sends a notification. One goroutine alone calls it.
	send func(context.Context) error
	// disconnect is called at the end.
	disconnect func()
	// renew disconnects if the user or the password was replaced. The goroutine of send calls it.
	renew func()

	wake    chan struct{} // has room for one token: something is pending
	quit    chan struct{}
	stop    func() // closes quit, once
	stopped chan struct{}
	started sync.Once
	ctx     context.Context // of sending
	cancel  context.CancelFunc

	pending atomic.Bool
	lastErr atomic.Pointer[error] // why the last sending failed; nil if it did not
	sent    atomic.Uint64
}

const (
	// notifyInterval bounds how much later other instances hear of a write.
	notifyInterval = 30 * time.Millisecond
	// notifyTimeout bounds the sending of one notification on an open connection.
	notifyTimeout = 2 * time.Second
	// maxNotifyDelay bounds the time between two attempts while sending fails.
	maxNotifyDelay = time.Second
	// flushTimeout bounds how long closing takes while the database does not respond.
	flushTimeout = time.Second
)

func newNotifier(server *postgres.Server, instance int64) *notifier {
	n := &notifier{instance: instance, wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{})}
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
		if conn != nil && server.IsStale(conn) {
			n.disconnect()
		}
	}
	n.send = func(ctx context.Context) (err error) {
		if conn == nil {
			if conn, err = connectBeside(ctx, server); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
		defer cancel()
		if _, err = conn.Exec(ctx, notifyStatement(instance)).ReadAll(); err != nil {
			n.disconnect() // the next one may lead to another server
		}
		return err
	}
	return n
}

// tell makes the notifier send a notification soon. The first call starts its goroutine. Of many calls only the
// one that finds nothing pending wakes it.
func (n *notifier) tell() {
	n.started.Do(func() { go n.run() })
	if !n.pending.Swap(true) {
		n.signal()
	}
}

// signal wakes the goroutine, which sends what is pending and closes a stale connection.
func (n *notifier) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run sends what is pending, rests, and goes on until the notifier is closed. It rests for notifyInterval, and
// longer each time that sending fails.
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

// sendPending sends what is pending. If that fails it stays pending. pending is taken back before the sending,
// so a write that comes during it causes another notification: the one on its way may be older.
func (n *notifier) sendPending(ctx context.Context) error {
	if !n.pending.Swap(false) {
		return nil
	}
	err := n.send(ctx)
	if err != nil {
		n.lastErr.Store(&err)
		n.pending.Store(true)
		n.signal()
		return err
	}
	n.lastErr.Store(nil)
	n.sent.Add(1)
	return nil
}

// err is why the last sending failed.
func (n *notifier) err() error {
	if err := n.lastErr.Load(); err != nil {
		return *err
	}
	return nil
}

// close sends what is pending, for no longer than flushTimeout.
func (n *notifier) close() {
	n.started.Do(func() { close(n.stopped) }) // nothing was ever told, so no goroutine runs
	defer time.AfterFunc(flushTimeout, n.cancel).Stop()
	n.stop()
	<-n.stopped
	n.cancel()
}
