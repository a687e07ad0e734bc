package serve

import (
	"context"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"worldevents/internal/setup"
)

// ballastSize is the size in bytes of a heap ballast. It takes no memory, since nobody touches it, but the garbage collector counts it as
// live. Without it the collector would run dozens of times a second over this small heap.
const ballastSize = 32 << 20

// drainFraction is the part of SHUTDOWN_TIMEOUT in which the instance still takes requests after SIGTERM: a fifth. A proxy goes on sending
// them until it has noticed.
const drainFraction = 5

type Command struct{}

// Hangups has a signal for each reload. main makes it first of all, so that a SIGHUP during the start does not end the process.
type Hangups chan os.Signal

// Run serves until a signal, and then completes what is in flight. It opens the listeners before the database responds: the requests of a
// short restart wait instead of failing.
func (Command) Run(contract setup.Contract, hangups Hangups) error {
	notifySystemd()
	// Without a channel SIGPIPE would end the process when the reader of the log has gone (package os/signal).
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	i := &instance{errc: make(chan error, 5)} // with room for goroutines that fail after Run has returned
	defer i.close()
	if err := i.prepare(contract); err != nil {
		return err
	}
	var ballast strings.Builder // make would clear memory that was in use before, and so touch it
	ballast.Grow(ballastSize)
	defer runtime.KeepAlive(&ballast)

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	if err := i.serve(); err != nil {
		return err
	}
	go i.reloadOnHangup(hangups)
	i.logServing()
	// The migration runs beside the listeners: the database may be away for long.
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go i.migrate(ctx)

	select {
	case err := <-i.errc:
		return err
	case got := <-signals:
		signal.Reset(syscall.SIGTERM, os.Interrupt) // a second signal ends the process at once
		stop()
		i.stop(got)
		return nil
	}
}

// notifySystemd tells systemd that the process handles signals: a unit of Type=notify sends none before (sd_notify(3)). Readiness would not
// do: systemd would end the start while the database is away.
func notifySystemd() {
	if socket := os.Getenv("NOTIFY_SOCKET"); socket != "" {
		if conn, err := net.Dial("unixgram", socket); err == nil {
			conn.Write([]byte("READY=1"))
			conn.Close()
		}
	}
}
