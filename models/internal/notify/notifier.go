package notify

import (
	"context"
	"sync/atomic"
	"time"
)

// notifier tells other instances that this one has written. Any number of writes within notifyInterval cost one
// notification; after a quiet time the first is sent at once. No write waits for it. One that cannot be sent is not
// sent again: others find the write when they ask, a second later.
type notifier struct {
	send func(context.Context) error
	sent atomic.Uint64

	pending atomic.Bool   // nothing has been sent since a write
	turn    chan struct{} // has room for one: whoever sends, and rests then
	closing context.Context
	stop    context.CancelFunc // ends closing
}

const (
	// notifyInterval bounds how much later other instances are told of a write.
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
	if !n.pending.Swap(false) { // before the sending: a write that comes during it has another one sent
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

// close sends what is pending, once what is being sent is. Each takes notifyTimeout at most.
func (n *notifier) close() {
	n.stop()
	n.sendPending()
}
