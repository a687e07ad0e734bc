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

// ballastSize is the size in bytes of a heap ballast. It is never touched, so it takes no memory, but the
// garbage collector counts it as live. Without it the collector would run dozens of times a second over this
// small heap. To a large heap it makes no difference.
const ballastSize = 32 << 20

// drainFraction says for how long the instance still takes requests after SIGTERM while its readiness is 503:
// for one part in so many of the shutdown timeout. A proxy goes on sending requests until it has noticed.
const drainFraction = 5

// Command is the command serve.
type Command struct{}

// Hangups has a signal for each time that secrets and certificate are to be read again. main makes it first of
// all, so that a SIGHUP during the start does not end the process.
type Hangups chan os.Signal

// Run serves until a signal, and then completes what is in flight. It first finds out everything that can be
// wrong with the settings, and opens the listeners before the database responds: the requests of a short
// restart wait instead of failing.
func (Command) Run(contract setup.Contract, hangups Hangups) error {
	tellSystemd()
	// When the reader of the log has gone, writing a line raises SIGPIPE, which would end the process (package
	// os/signal). With a channel for the signal it is only an error of writing.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	i := &instance{
		// The channel has room, so that a goroutine which fails after Run has returned does not block.
		errc: make(chan error, 5),
	}
	defer i.close()
	if err := i.prepare(contract); err != nil {
		return err
	}
	var ballast strings.Builder // make would clear memory that was in use before, and so touch it
	ballast.Grow(ballastSize)
	defer runtime.KeepAlive(&ballast)

	// These signals begin the stop. The channel has room for one, because package signal does not wait for a
	// reader.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	if err := i.serve(); err != nil {
		return err
	}
	go i.reloadOnHangup(hangups)
	// From here on requests are taken. Until the migration is over, each waits a moment for it, and is then
	// 503.
	i.logServing()
	// The migration runs beside the listeners, because the database may be away for long.
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go i.migrate(ctx)

	select {
	case err := <-i.errc:
		return err
	case got := <-signals:
		signal.Reset(syscall.SIGTERM, os.Interrupt) // a second signal ends the process at once
		// Pruning ends first: it would only be in the way.
		stop()
		i.stop(got)
		return nil
	}
}

// tellSystemd tells systemd that the process takes signals. A unit of Type=notify sends none before
// (sd_notify(3)). It says nothing about readiness: if it did, systemd would end the start while the database is
// away.
func tellSystemd() {
	if socket := os.Getenv("NOTIFY_SOCKET"); socket != "" {
		if conn, err := net.Dial("unixgram", socket); err == nil {
			conn.Write([]byte("READY=1"))
			conn.Close()
		}
	}
}
