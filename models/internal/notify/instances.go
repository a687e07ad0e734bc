package notify

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/models/internal/postgres"
)

// Instances tells the instances that share a PostgreSQL database when one of them has written, with NOTIFY and
// LISTEN on two connections beside the pool.
//
// A write does not notify in its own transaction. PostgreSQL commits transactions that notify one after the
// other, since notifications arrive in the order of the commits (PostgreSQL, "NOTIFY"), and writes would be
// several times slower.
type Instances struct {
	notifier *notifier
	listener *listener
}

// channel is the name under which all instances notify and listen.
const channel = "worldevents"

// New connects to nothing yet.
func New(server *postgres.Server) *Instances {
	var instance [8]byte
	rand.Read(instance[:]) // never fails
	return &Instances{
		notifier: newNotifier(server, int64(binary.NativeEndian.Uint64(instance[:]))),
		listener: &listener{server: server},
	}
}

// connectBeside makes a connection that database/sql does not know.
func connectBeside(ctx context.Context, server *postgres.Server) (*pgconn.PgConn, error) {
	conn, err := server.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.(*stdlib.Conn).Conn().PgConn(), nil
}

func (i *Instances) Listen(log *slog.Logger, deliver func()) {
	i.listener.start(i.notifier, log, deliver)
}

// Tell tells other instances soon that this one has written.
func (i *Instances) Tell() { i.notifier.tell() }

// Hears reports whether notifications of other instances arrive. Otherwise only asking the database finds what they write: behind a
// pooler that does not pass notifications on, and while the connection is lost.
func (i *Instances) Hears() bool { return i.listener.hears.Load() }

// Sent is how many notifications were sent.
func (i *Instances) Sent() uint64 { return i.notifier.sent.Load() }

// Received is how many notifications of other instances arrived.
func (i *Instances) Received() uint64 { return i.listener.received.Load() }

// Renew replaces the connections that were made with an earlier user or password: the notifier's soon, the
// listener's within maxSilence.
func (i *Instances) Renew() { i.notifier.signal() }

// Close tells others of the last writes and closes both connections. It waits for the database no longer than
// flushTimeout.
func (i *Instances) Close() {
	i.listener.close()
	i.notifier.close()
}

// notifyStatement is one statement, so it is a transaction of its own and leaves nothing on the connection;
// that works behind any pooler. Its payload is the number of the instance. A transaction that only notifies has
// written nothing, so PostgreSQL lets it wait neither for the disk nor for a standby.
func notifyStatement(instance int64) string {
	return "SELECT pg_notify('" + channel + "', '" + strconv.FormatInt(instance, 36) + "')"
}

// disconnect closes a connection. It waits no longer than a second for a server that does not respond.
func disconnect(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
