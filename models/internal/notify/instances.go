package notify

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"worldevents/models/internal/postgres"
)

// Instances notifies the other instances of writes, and listens for theirs. A write does not notify in its own transaction: PostgreSQL
// commits transactions that notify one after the other, since notifications arrive in the order of the commits (PostgreSQL, "NOTIFY"), and
// writes would be several times slower.
type Instances struct {
	notifier *notifier
	server   *postgres.Server // of the listener
	instance string           // the payload of this one's notifications
	deliver  func()
	received atomic.Uint64
	cancel   context.CancelFunc // ends the listening; nil before Listen
	running  sync.WaitGroup
}

const channel = "worldevents" // of all instances

// New connects to nothing yet. exec runs a statement on a connection of the pool.
func New(server *postgres.Server, exec func(ctx context.Context, statement string) error) *Instances {
	instance := rand.Text()
	// A transaction that only notifies writes nothing, so PostgreSQL waits neither for the disk nor for a standby.
	statement := "SELECT pg_notify('" + channel + "', '" + instance + "')"
	return &Instances{
		notifier: newNotifier(func(ctx context.Context) error { return exec(ctx, statement) }),
		server:   server,
		instance: instance,
	}
}

// Tell notifies other instances soon.
func (i *Instances) Tell() { i.notifier.tell() }

// Sent counts notifications that were sent.
func (i *Instances) Sent() uint64 { return i.notifier.sent.Load() }

// Received counts notifications of others.
func (i *Instances) Received() uint64 { return i.received.Load() }

// Close notifies others of the last writes and ends listening. It waits for the database for at most two seconds.
func (i *Instances) Close() {
	if i.cancel != nil {
		i.cancel()
		i.running.Wait()
	}
	i.notifier.close()
}
