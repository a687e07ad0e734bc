package models

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Instances passes hints on between the instances that share a PostgreSQL database, with NOTIFY and LISTEN, on two
// connections beside the pool. NOTIFY is never part of a write's own transaction: PostgreSQL commits transactions that
// notify one after the other, and writes would be several times slower.
type Instances struct {
	notifier *notifier
	listener *listener
}

// channel is the name of the notifications.
const channel = "worldevents"

// newInstances connects to nothing yet. beside prepares connections, which call hear with each notification.
func newInstances(beside func(hear func(*pgconn.Notification)) (*connector, error)) (*Instances, error) {
	toTell, err := beside(func(*pgconn.Notification) {}) // a pooler may pass on what others listen for
	if err != nil {
		return nil, err
	}
	l := new(listener)
	if l.conns, err = beside(l.hear); err != nil {
		return nil, err
	}
	return &Instances{notifier: newNotifier(toTell, Hint(randomNumber())), listener: l}, nil
}

// connectBeside makes a connection that database/sql does not know.
func connectBeside(ctx context.Context, conns *connector) (*pgconn.PgConn, error) {
	conn, err := conns.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.(*stdlib.Conn).Conn().PgConn(), nil
}

func (i *Instances) listen(log *slog.Logger, deliver func(Source, ...Hint)) {
	i.listener.start(i.notifier, log, deliver)
}

// Hears is Store.Hears.
func (i *Instances) Hears() bool { return i != nil && i.listener.hears.Load() }

// Sent is how many hints were passed on to other instances.
func (i *Instances) Sent() uint64 { return i.notifier.sent.Load() }

// Dropped is how many hints were not, because the database took none for too long.
func (i *Instances) Dropped() uint64 { return i.notifier.dropped.Load() }

// Received is how many hints of other instances arrived.
func (i *Instances) Received() uint64 { return i.listener.received.Load() }

// renew has the connections of before the last replacement of user and password closed, that of the listener within maxSilence.
func (i *Instances) renew() { i.notifier.signal() }

// close has the hints of all writes sent before it returns, if that takes no longer than flushTimeout.
func (i *Instances) close() {
	i.listener.close()
	i.notifier.close()
	i.listener.conns.Close()
	i.notifier.conns.Close()
}

const (
	hintBytes = 8
	// maxPayload is the size of a payload in bytes before base64: PostgreSQL takes less than 8000 bytes of text.
	maxPayload = 5992
)

// payloads spells hints as texts of notifications: base64 of 8 bytes each, the first being the instance.
func payloads(instance Hint, hints []Hint) (texts []string) {
	for some := range slices.Chunk(hints, maxPayload/hintBytes-1) {
		b := binary.BigEndian.AppendUint64(make([]byte, 0, maxPayload), uint64(instance))
		for _, hint := range some {
			b = binary.BigEndian.AppendUint64(b, uint64(hint))
		}
		texts = append(texts, base64.RawURLEncoding.EncodeToString(b))
	}
	return texts
}

// parsePayload returns the instance and its hints, and whether text is a payload at all: everybody who can connect to the
// database can notify.
func parsePayload(text string) (instance Hint, hints []Hint, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) <= hintBytes || len(b)%hintBytes != 0 {
		return 0, nil, false
	}
	for ; len(b) > 0; b = b[hintBytes:] {
		hints = append(hints, Hint(binary.BigEndian.Uint64(b)))
	}
	return hints[0], hints[1:], true
}

// notifyStatement is one statement, so one transaction, that may also run behind a pooler: nothing of it stays with the
// connection. PostgreSQL has a transaction that only notifies wait neither for the disk nor for a standby.
func notifyStatement(texts []string) string {
	calls := make([]string, len(texts))
	for i, text := range texts {
		calls[i] = "pg_notify('" + channel + "', '" + text + "')"
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// disconnect closes a connection without waiting for a server that does not respond.
func disconnect(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
