package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"worldevents/models/internal/dberr"
	"worldevents/models/internal/postgres"
)

// listener hears the notifications of other instances, on a connection of its own.
//
// It trusts the connection only after it has heard a notification that this instance sent over another one.
// PgBouncer in transaction mode accepts LISTEN and never passes a notification on: the LISTEN stays on a server
// connection that it gives to others.
type listener struct {
	server   *postgres.Server
	instance string // the payload of this one's notifications
	notifier *notifier
	log      *slog.Logger
	deliver  func()
	cancel   context.CancelFunc
	stopped  chan struct{}

	hears    atomic.Bool
	received atomic.Uint64

	// proven means that this instance has heard itself.
	proven bool
	deaf   bool // the log says that nothing is heard
}

const (
	// maxSilence is how long nothing may arrive before the connection is tested, and pingTimeout how long the
	// test may take. A firewall may have dropped the connection without a word.
	maxSilence  = 5 * time.Second
	pingTimeout = 2 * time.Second
	// proofTimeout is how long it may take until this instance hears itself, and proofInterval for how long it listens after each
	// notification of its own.
	proofTimeout, proofInterval = 4 * time.Second, time.Second
	// maxListenDelay bounds the time between attempts while the database is away.
	maxListenDelay = 2 * time.Second
	// deafDelay is the time between attempts where LISTEN does not work. Another attempt is for the day on
	// which somebody changes the pooler.
	deafDelay = 30 * time.Second
)

// errDeaf means that the server accepted LISTEN and nothing was heard, as behind PgBouncer in transaction mode.
var errDeaf = errors.New("notifications do not arrive: is a connection pooler in between?")

// errStale means that the connection is to be made anew.
var errStale = errors.New("the user or the password was replaced")

func (l *listener) start(log *slog.Logger, deliver func()) {
	l.log, l.deliver, l.stopped = log, deliver, make(chan struct{})
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

// run listens until ctx ends, and again after each failure. It logs one line when it stops hearing others,
// however often it then tries.
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
			l.log.Warn("other instances are not heard: watches learn of their writes up to a second later", "error", err.Error())
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

// listen hears notifications until something fails, and returns that.
func (l *listener) listen(ctx context.Context) error {
	lent, err := l.server.Connect(ctx)
	if err != nil {
		return err
	}
	conn := lent.(*stdlib.Conn).Conn().PgConn()
	defer disconnect(conn)
	postgres.Hear(conn, l.hear)
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
		if l.server.IsStale(conn) {
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

// prove sends notifications until this instance hears one. It returns errDeaf if it hears none within proofTimeout, or why the last one
// could not be sent.
func (l *listener) prove(ctx context.Context, conn *pgconn.PgConn) error {
	l.proven = false
	for deadline := time.Now().Add(proofTimeout); ; {
		unsent := l.notifier.notify(ctx)
		err := error(nil)
		for again := time.Now().Add(proofInterval); err == nil && !l.proven; { // others are heard, too
			err = wait(ctx, conn, time.Until(again))
		}
		switch {
		case l.proven:
			return nil
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		case time.Now().After(deadline):
			return cmp.Or(unsent, errDeaf)
		}
	}
}

// hear takes a notification. Only those of other instances count.
func (l *listener) hear(n *pgconn.Notification) {
	if n.Channel != channel {
		return
	}
	if n.Payload == l.instance {
		l.proven = true
		return
	}
	l.received.Add(1) // perhaps not of an instance: everybody who can connect to the database can notify
	l.deliver()
}

// wait waits for one notification, no longer than d. For none it returns an error that pgconn.Timeout
// recognizes, and the connection stays open.
func wait(ctx context.Context, conn *pgconn.PgConn, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return conn.WaitForNotification(ctx)
}

// ping returns an error if the server does not respond, or no longer listens for this connection: some poolers
// exchange the server behind a connection. It writes nothing, so that no instance looks for news because of it.
func ping(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	listens, err := query(ctx, conn, "SELECT count(*) FROM pg_listening_channels() c WHERE c = '"+channel+"'")
	if err == nil && listens != "1" {
		err = errors.New("the server does not listen any more")
	}
	return err
}

// unlisten takes LISTEN back from a server connection that a pooler also gives to others. The pooler chooses
// the server connection of each statement, so unlisten repeats until it meets the one on which LISTEN ran.
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

// query returns the one value of the last statement. It uses the simple protocol and prepares nothing, so that
// it works behind any pooler.
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

// disconnect closes a connection. It waits no longer than a second for a server that does not respond.
func disconnect(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
