package notify

import (
	"context"
	"sync/atomic"
	"time"
)

// notifier notifies other instances of writes. Any number of writes within notifyInterval cost one notification; after a quiet time the
// first is sent at once. No write waits for it. A failed one is not repeated: others find the write when they ask, a second later.
type notifier struct {
	send func(context.Context) error
	sent atomic.Uint64

	pending atomic.Bool   // nothing has been sent since a write
	turn    chan struct{} // of the one goroutine that sends and then rests
	closing context.Context
	stop    context.CancelFunc // ends closing
}

const (
	// notifyInterval bounds the delay of a notification.
	notifyInterval = 30 * time.Millisecond
	// notifyTimeout bounds the sending of one notification, with the queue for a connection.
	notifyTimeout = time.Second
)

func newNotifier(send func(context.Context) error) *notifier {
	n := &notifier{send: send, turn: make(chan struct{}, 1)}
	n.closing, n.stop = context.WithCancel(context.Background())
	return n
}

// tell has a notification sent soon. Of many calls only the one that finds nothing pending does anything.
func (n *notifier) tell() {
	if !n.pending.Swap(true) {
		go n.sendPending()
	}
}

// sendPending sends what is pending, and rests.
func (n *notifier) sendPending() {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	if !n.pending.Swap(false) { // before sending: a write during it needs another one
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	if n.send(ctx) == nil {
		n.sent.Add(1)
	}
	select {
	case <-n.closing.Done():
	case <-time.After(notifyInterval):
	}
}

// close sends what is pending, after what is being sent. Each takes at most notifyTimeout.
func (n *notifier) close() {
	n.stop()
	n.sendPending()
}
