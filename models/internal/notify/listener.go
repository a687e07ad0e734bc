package notify

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/postgres"
)

// listener takes the notifications of other instances, on a connection of its own.
type listener struct {
	server   *postgres.Server
	instance string // the payload of this one's notifications
	deliver  func()
	cancel   context.CancelFunc
	stopped  chan struct{}
	received atomic.Uint64
}

const (
	// silence is how long nothing may arrive before the listener says LISTEN again, and listenTimeout how long that may take. A
	// firewall may have dropped the connection without a word, and some poolers exchange the server behind one.
	silence, listenTimeout = 5 * time.Second, 2 * time.Second
	// rest is the time between a connection and the next one. The hub asks without one.
	rest = 5 * time.Second
)

func (l *listener) start(deliver func()) {
	l.deliver, l.stopped = deliver, make(chan struct{})
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	go l.run(ctx)
}

func (l *listener) close() {
	if l.cancel != nil {
		l.cancel()
		<-l.stopped
	}
}

// run listens until ctx ends, and again after each failure.
func (l *listener) run(ctx context.Context) {
	defer close(l.stopped)
	for l.listen(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

// listen takes notifications until something fails. It returns false if the connection may be a pooler's that gives the server
// connection to others after each transaction, as PgBouncer does: LISTEN would stay there, and no notification would arrive. The URL
// says so, since prepared statements do not work there either.
func (l *listener) listen(ctx context.Context) (again bool) {
	own, err := l.server.Dial(ctx, l.hear)
	if err != nil {
		return true
	}
	conn := own.PgConn()
	defer disconnect(conn)
	if own.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return false
	}
	err = sayListen(ctx, conn)
	for err == nil && !l.server.IsStale(conn) {
		if err = wait(ctx, conn); pgconn.Timeout(err) {
			err = sayListen(ctx, conn)
		}
	}
	return true
}

// hear takes a notification. Only those of other instances count.
func (l *listener) hear(n *pgconn.Notification) {
	if n.Channel == channel && n.Payload != l.instance {
		l.received.Add(1) // perhaps not of an instance: everybody who can connect to the database can notify
		l.deliver()
	}
}

// sayListen has the server send notifications. It writes nothing, and said again it only shows that the server responds.
func sayListen(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	return conn.Exec(ctx, "LISTEN "+channel).Close()
}

// wait waits for one notification. For none it returns an error that pgconn.Timeout recognizes, and the connection stays open.
func wait(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return conn.WaitForNotification(ctx)
}

// disconnect closes a connection. It waits no longer than a second for a server that does not respond.
func disconnect(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
