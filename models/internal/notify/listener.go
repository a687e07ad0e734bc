package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
)

// listener hears the notifications of other instances, on a connection of its own. It believes in that only once it has
// heard one that this instance sent over another connection: PgBouncer in transaction mode accepts LISTEN and never passes
// a notification on.
type listener struct {
	conns    *postgres.Connector
	notifier *notifier
	log      *slog.Logger
	deliver  func()
	cancel   context.CancelFunc
	stopped  chan struct{}

	hears    atomic.Bool
	received atomic.Uint64

	// Only the goroutine that listens uses these.
	proven bool // whether this instance has heard itself
	deaf   bool // whether the log says so
}

const (
	// maxSilence is after how long without a notification the connection is tried, and pingTimeout how long that may take.
	maxSilence  = 5 * time.Second
	pingTimeout = 2 * time.Second
	// proofTimeout is longer than the notifier rests between attempts.
	proofTimeout = 4 * time.Second
	// maxListenDelay bounds the time between attempts to reach a database that is away.
	maxListenDelay = 2 * time.Second
	// deafDelay is the time between attempts where listening is not to be had.
	deafDelay = 30 * time.Second
)

// errDeaf means that LISTEN was accepted and nothing was heard, as behind PgBouncer in transaction mode.
var errDeaf = errors.New("notifications do not arrive: is a connection pooler in between?")

// errStale means that another connection is to take the place of this one.
var errStale = errors.New("the user or the password was replaced")

func (l *listener) start(n *notifier, log *slog.Logger, deliver func()) {
	l.notifier, l.log, l.deliver, l.stopped = n, log, deliver, make(chan struct{})
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

func (l *listener) run(ctx context.Context) {
	defer close(l.stopped)
	for delay := time.Duration(0); ; {
		l.proven = false
		err := l.listen(ctx)
		l.hears.Store(false)
		if ctx.Err() != nil {
			return
		}
		if !l.deaf && !errors.Is(err, errStale) {
			l.log.Warn("other instances are not heard: who waits for a list has their news after a second", "error", err.Error())
			l.deaf = true
		}
		pgErr := new(pgconn.PgError)
		switch {
		case l.proven:
			delay = 0
		case errors.Is(err, errDeaf), errors.As(err, &pgErr) && dberr.ClassOfPostgres(pgErr.Code) == nil:
			delay = deafDelay
		default:
			delay = min(2*delay, maxListenDelay)
		}
		delay = max(delay, 100*time.Millisecond)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}

// listen hears notifications until something fails, which it returns.
func (l *listener) listen(ctx context.Context) error {
	conn, err := connectBeside(ctx, l.conns)
	if err != nil {
		return err
	}
	defer disconnect(conn)
	backend, err := query(ctx, conn, "LISTEN "+channel+"; SELECT pg_backend_pid()")
	if err != nil {
		return err
	}
	if err := l.prove(ctx, conn); err != nil {
		if errors.Is(err, errDeaf) {
			unlisten(ctx, conn, backend)
		}
		return err
	}
	l.log.Info("other instances are heard")
	l.deaf = false
	l.hears.Store(true)
	for {
		if l.conns.IsStale(conn) {
			return errStale
		}
		err := wait(ctx, conn, maxSilence)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !pgconn.Timeout(err) {
			return err
		}
		if err := ping(ctx, conn); err != nil {
			return err
		}
	}
}

// prove waits until a notification of this instance has come. It returns errDeaf if none does.
func (l *listener) prove(ctx context.Context, conn *pgconn.PgConn) error {
	l.proven = false
	l.notifier.tell()
	for deadline := time.Now().Add(proofTimeout); !l.proven; {
		if err := wait(ctx, conn, time.Until(deadline)); err != nil {
			if ctx.Err() == nil && pgconn.Timeout(err) {
				return errors.Join(errDeaf, l.notifier.err())
			}
			return err
		}
	}
	return nil
}

// hear takes a notification. What others than instances of this service send means nothing.
func (l *listener) hear(n *pgconn.Notification) {
	if n.Channel != channel {
		return
	}
	instance, err := strconv.ParseInt(n.Payload, 36, 64)
	switch {
	case err != nil: // everybody who can connect to the database can notify
	case instance == l.notifier.instance:
		l.proven = true
	default:
		l.received.Add(1)
		l.deliver()
	}
}

// wait waits for one notification, at most d. The error for none is one that pgconn.Timeout knows; the connection stays.
func wait(ctx context.Context, conn *pgconn.PgConn, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return conn.WaitForNotification(ctx)
}

// ping fails when the server does not respond, and when it no longer listens for this connection: some poolers exchange the server
// behind it. It writes nothing, so that it is no reason to look for writes.
func ping(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	listens, err := query(ctx, conn, "SELECT count(*) FROM pg_listening_channels() c WHERE c = '"+channel+"'")
	if err == nil && listens != "1" {
		err = errors.New("the server does not listen any more")
	}
	return err
}

// unlisten ends what LISTEN has begun on a server connection that a pooler also gives to others.
func unlisten(ctx context.Context, conn *pgconn.PgConn, backend string) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	for range 20 {
		on, err := query(ctx, conn, "UNLISTEN "+channel+"; SELECT pg_backend_pid()")
		if err != nil || on == backend {
			return
		}
	}
}

// query returns the one value of the last statement. It prepares nothing, so that it works behind any pooler.
func query(ctx context.Context, conn *pgconn.PgConn, sql string) (string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	if len(results) == 0 || len(results[len(results)-1].Rows) != 1 {
		return "", fmt.Errorf("%d results", len(results))
	}
	return string(results[len(results)-1].Rows[0][0]), nil
}
