package notify

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// Without a notification for silence the listener says LISTEN again, for at most listenTimeout: a firewall may have dropped the
	// connection without a word, and some poolers exchange the server behind one.
	silence, listenTimeout = 5 * time.Second, 2 * time.Second
	// rest is the time between two connections. The hub asks without one.
	rest = 5 * time.Second
)

// Listen begins to call deliver after writes of other instances. It has a connection of its own.
func (i *Instances) Listen(deliver func()) {
	i.deliver = deliver
	var ctx context.Context
	ctx, i.cancel = context.WithCancel(context.Background())
	i.running.Go(func() { i.run(ctx) })
}

// run listens until ctx ends, and again after each failure.
func (i *Instances) run(ctx context.Context) {
	for i.listen(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

// listen takes notifications until something fails. It returns false behind a pooler that gives the server connection to others after each
// transaction, as PgBouncer does: no notification would arrive. The URL shows that, since prepared statements do not work there either.
func (i *Instances) listen(ctx context.Context) (again bool) {
	own, err := i.server.Dial(ctx, i.hear)
	if err != nil {
		return true
	}
	conn := own.PgConn()
	defer disconnect(conn)
	if own.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return false
	}
	err = sayListen(ctx, conn)
	for err == nil && !i.server.IsStale(conn) {
		if err = wait(ctx, conn); pgconn.Timeout(err) {
			err = sayListen(ctx, conn)
		}
	}
	return true
}

// hear takes a notification. Only those of other instances count.
func (i *Instances) hear(n *pgconn.Notification) {
	if n.Channel == channel && n.Payload != i.instance {
		i.received.Add(1) // perhaps not of an instance: everybody who can connect to the database can notify
		i.deliver()
	}
}

// sayListen subscribes to notifications. It writes nothing, and repeated it only shows that the server responds.
func sayListen(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	return conn.Exec(ctx, "LISTEN "+channel).Close()
}

// wait waits for one notification. Without one it returns an error that pgconn.Timeout recognizes, and the connection stays open.
func wait(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return conn.WaitForNotification(ctx)
}

// disconnect closes a connection. It waits for at most a second for the server.
func disconnect(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
