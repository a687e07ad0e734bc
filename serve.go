package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"worldevents/config"
	"worldevents/models"
)

// ballast is a heap ballast, in bytes: never touched, so it takes no memory, but the collector counts it as live.
// Without it this small heap would be collected dozens of times a second. A large heap does not notice it.
const ballast = 16 << 20

// drainFraction is the part of the shutdown timeout, one in so many, for which requests are still taken after SIGTERM
// while readiness is 503: a proxy goes on sending until it has noticed.
const drainFraction = 5

// Run serves until a signal, then completes what is in flight.
func (serveCommand) Run() error {
	c, store, err := open(true)
	if err != nil {
		return err
	}
	defer store.Close()
	log, accessLog, flush := newLogs(c, os.Stderr)
	defer flush()
	srv, err := newServer(c, store, log, accessLog)
	if err != nil {
		return err
	}
	warn(c, log)
	defer runtime.KeepAlive(make([]byte, ballast))

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	errc := make(chan error, 3)
	public := &http.Server{
		Handler:           srv.Public,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    12 << 10, // net/http adds 4 KiB
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	admin := &http.Server{Handler: srv.Admin, ReadHeaderTimeout: 5 * time.Second}
	if err := listen(public, c.ListenAddr, errc); err != nil {
		return fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	if c.AdminAddr != "" {
		if err := listen(admin, c.AdminAddr, errc); err != nil {
			return fmt.Errorf("ADMIN_ADDR: %w", err)
		}
		defer admin.Close()
	}
	log.Info("serving", "address", c.ListenAddr, "base_url", c.BaseURL, "environment", c.AppEnv)
	go func() {
		switch err := migrateWhenAvailable(ctx, store, log); {
		case err == nil:
			srv.Ready()
			log.Info("ready")
			pruneSessions(ctx, store, log)
		case ctx.Err() == nil:
			errc <- err
		}
	}()

	var got os.Signal
	select {
	case err := <-errc:
		return err
	case got = <-signals:
	}
	signal.Reset() // a second signal ends the process at once
	stop()
	srv.Drain()
	log.Info("stopping")
	deadline, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	if got == syscall.SIGTERM { // from a supervisor; a person at a terminal waits for nobody
		time.Sleep(c.ShutdownTimeout / drainFraction)
	}
	if err := public.Shutdown(deadline); err != nil {
		log.Warn("requests were still in flight at SHUTDOWN_TIMEOUT")
		public.Close()
	}
	return nil
}

// listen begins to serve on addr. What ends the server unasked goes to errc.
func listen(s *http.Server, addr string, errc chan<- error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			errc <- err
		}
	}()
	return nil
}

// migrateWhenAvailable waits for a database that is away. It gives up on an error that waiting cannot mend,
// and when the process is to stop.
func migrateWhenAvailable(ctx context.Context, store *models.Store, log *slog.Logger) error {
	for {
		err := store.Migrate(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case !errors.Is(err, models.ErrUnavailable) && !errors.Is(err, models.ErrTimeout) && !errors.Is(err, models.ErrBusy):
			return err
		}
		log.Warn("waiting for the database", "error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// pruneInterval is how long pruning rests after each thousand sessions: a million of them are looked at in an hour and a
// half, and nobody feels it.
const pruneInterval = 5 * time.Second

// pruneSessions deletes sessions of which nothing is left, until ctx ends. Every instance does so.
func pruneSessions(ctx context.Context, store *models.Store, log *slog.Logger) {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	var last models.ID
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		if last, _, err = store.PruneSessions(ctx, last); err != nil && ctx.Err() == nil {
			log.Debug("sessions not pruned", "error", err.Error())
		}
	}
}

// clientRetry is how long the TypeScript client may repeat a refresh that has lost its race.
const clientRetry = 20 * time.Second

// warn says what is allowed but rarely meant.
func warn(c *config.Config, log *slog.Logger) {
	if c.Development {
		return
	}
	if c.Base.Scheme == "http" {
		log.Warn("BASE_URL is plain http: browsers keep Secure cookies from it, except on localhost")
	}
	if !c.DatabaseSet {
		log.Warn("DATABASE_URL is not set: keeping data in worldevents.db in the working directory")
	}
	if c.RefreshReuseLeeway < clientRetry {
		log.Warn("REFRESH_REUSE_LEEWAY is below 20s: an ordinary client that repeats a refresh may end its user's session")
	}
}
