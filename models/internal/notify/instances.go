package notify

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"worldevents/models/internal/postgres"
)

// Instances tells the instances that share a PostgreSQL database when one of them has written.
//
// A write does not notify in its own transaction. PostgreSQL commits transactions that notify one after the
// other, since notifications arrive in the order of the commits (PostgreSQL, "NOTIFY"), and writes would be
// several times slower.
type Instances struct {
	notifier *notifier

	server   *postgres.Server // to which the listener connects
	instance string           // the payload of this one's notifications
	deliver  func()
	received atomic.Uint64
	cancel   context.CancelFunc // ends the listening; nil before Listen
	running  sync.WaitGroup
}

// channel is the name under which all instances notify and listen.
const channel = "worldevents"

// New connects to nothing yet. Exec runs a statement on a connection of the pool.
func New(server *postgres.Server, exec func(ctx context.Context, statement string) error) *Instances {
	instance := rand.Text()
	// A transaction that only notifies has written nothing, so PostgreSQL lets it wait neither for the disk nor for a standby.
	statement := "SELECT pg_notify('" + channel + "', '" + instance + "')"
	return &Instances{
		notifier: newNotifier(func(ctx context.Context) error { return exec(ctx, statement) }),
		server:   server,
		instance: instance,
	}
}

// Tell tells other instances soon that this one has written.
func (i *Instances) Tell() { i.notifier.tell() }

// Sent is how many notifications were sent.
func (i *Instances) Sent() uint64 { return i.notifier.sent.Load() }

// Received is how many notifications of others arrived.
func (i *Instances) Received() uint64 { return i.received.Load() }

// Close tells others of the last writes and listens no longer. It waits for the database for two seconds at most.
func (i *Instances) Close() {
	if i.cancel != nil {
		i.cancel()
		i.running.Wait()
	}
	i.notifier.close()
}
