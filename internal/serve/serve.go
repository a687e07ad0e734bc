package serve

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
	"slices"
	"strings"
	"syscall"
	"time"

	"worldevents/config"
	"worldevents/config/build"
	"worldevents/internal/logs"
	"worldevents/internal/setup"
	"worldevents/models"
	"worldevents/server"
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
	// Nothing is opened before all settings are known to be usable.
	c, err := config.Load(true)
	if err != nil {
		return err
	}
	store, err := setup.Store(c, c.DBTimeout)
	if err != nil {
		return err
	}
	defer store.Close()
	log, accessLog := logs.New(c)
	// The listeners open before the database responds. From now on the kernel takes connections, and no client
	// of a short restart is refused.
	listeners, err := listenEach(c.ListenAddrs)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	// In development the default of BASE_URL names the port of the public listener, which the system may have
	// chosen.
	c.UsePort(listeners[0].Addr().(*net.TCPAddr).Port)
	cert, err := setup.Certificate(c)
	if err != nil {
		return err
	}
	options, err := setup.Server(c, contract, store, log, accessLog)
	if err != nil {
		return err
	}
	if cert != nil {
		options.CertificateExpiry = cert.Expiry
	}
	srv, err := server.New(options)
	if err != nil {
		return err
	}
	warn(c, store, listeners, log)
	var ballast strings.Builder // make would clear memory that was in use before, and so touch it
	ballast.Grow(ballastSize)
	defer runtime.KeepAlive(&ballast)

	// These signals begin the stop. The channel has room for one, because package signal does not wait for a
	// reader.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// The channel has room, so that a goroutine which fails after Run has returned does not block.
	errc := make(chan error, 5)
	// The head has to arrive within 5 s and the whole request within 10 s. Otherwise a client that sends a byte
	// now and then would keep a connection for ever. A response that takes longer than WriteTimeout goes on as
	// long as its client reads; see package backpressure.
	public := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      config.WriteTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    12 << 10, // net/http adds 4 KiB
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	// ADMIN_ADDR limits the head alone: a profile takes as long as the operator asked for.
	admin := &http.Server{Handler: srv.Admin, ReadHeaderTimeout: 5 * time.Second}
	if cert != nil {
		public.TLSConfig = cert.Config()
		for _, warning := range cert.Warnings() {
			log.Warn("TLS: " + warning)
		}
		go keepCertificate(ctx, cert, log)
	}
	// Attach puts the bounds for slow clients between listener and server. TLS must be set before, because it
	// lies above them.
	for i, l := range listeners {
		listeners[i] = srv.Attach(public, l)
	}
	for _, l := range listeners {
		go serve(public, l, errc)
	}
	if c.AdminAddr != "" {
		l, err := net.Listen("tcp", c.AdminAddr)
		if err != nil {
			return fmt.Errorf("ADMIN_ADDR: %w", err)
		}
		go serve(admin, l, errc)
		defer admin.Close()
	}
	if c.HTTPAddr != "" {
		plain, err := servePlain(c, cert, log, errc)
		if err != nil {
			return err
		}
		defer plain.Close()
	}
	go reloadOnHangup(hangups, logs.At(c, slog.LevelInfo), append(reloadCertificate(cert, log), reloadables(c, srv, store, log)...)...)
	// From here on requests are taken. Until the migration is over, each waits a moment for it, and is then
	// 503.
	this := build.Read()
	log.Info("serving", "version", this.Version, "commit", this.Commit, "commit_time", this.Time,
		"address", addresses(listeners), "base_url", c.BaseURL, "environment", c.AppEnv)
	// The migration runs beside the listeners, because the database may be away for long. What it finds ends
	// the process only if waiting cannot cure it.
	go func() {
		migrate := store.Migrate
		if c.RequireDatabase {
			migrate = store.MigrateExisting
		}
		switch err := migrateWhenAvailable(ctx, migrate, srv.StartFailed); {
		case err == nil:
			if store.Made() {
				log.Warn("there was no database, and a new one was made: where there should be one, look for it before people write", "database", store.Name())
			}
			if schema := store.NewerSchema(); schema > 0 {
				log.Warn("the schema of the database is newer than this version of worldevents, and compatible", "schema", schema)
			}
			srv.Ready()
			log.Info("ready")
			prune(ctx, store, log)
		case ctx.Err() == nil:
			errc <- err
		}
	}()

	// Run now waits, for a part that has failed or for a signal.
	var got os.Signal
	select {
	case err := <-errc:
		return err
	case got = <-signals:
	}
	signal.Reset(syscall.SIGTERM, os.Interrupt) // a second signal ends the process at once
	// Pruning, and the renewal of a certificate, end first: they would only be in the way.
	stop()
	// Readiness becomes 503, every response closes its connection, and watchers get their response at once.
	srv.Drain()
	log.Info("stopping")
	deadline, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	if got == syscall.SIGTERM { // from a supervisor; a person at a terminal waits for nobody
		time.Sleep(c.ShutdownTimeout / drainFraction)
	}
	// From here on a client that neither reads nor sends has one more second, or it would hold the stop up
	// until SHUTDOWN_TIMEOUT.
	srv.Hurry()
	if err := public.Shutdown(deadline); err != nil {
		log.Warn("requests were still in flight at SHUTDOWN_TIMEOUT")
		public.Close()
	}
	return nil
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

// listenEach listens on every address that this machine has. It needs at least one: not every machine has IPv6.
func listenEach(addresses []string) (listeners []net.Listener, err error) {
	for _, address := range addresses {
		l, failed := net.Listen("tcp", address)
		switch {
		case failed == nil:
			listeners = append(listeners, l)
		case errors.Is(failed, syscall.EADDRNOTAVAIL), errors.Is(failed, syscall.EAFNOSUPPORT):
			err = failed
		default:
			return nil, failed
		}
	}
	if len(listeners) == 0 {
		return nil, err
	}
	return listeners, nil
}

// serve serves on a listener. If the server ends although nobody asked it to, its error goes to errc.
func serve(s *http.Server, l net.Listener, errc chan<- error) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		errc <- err
	}
}

// addresses are those of the listeners. For port 0 the system has chosen one.
func addresses(listeners []net.Listener) string {
	var text []string
	for _, l := range listeners {
		text = append(text, l.Addr().String())
	}
	return strings.Join(text, ", ")
}

// migrateWhenAvailable migrates, and tries again while the database is away. It calls failed after each try. It
// gives up on an error that waiting cannot cure, and when the process is to stop.
func migrateWhenAvailable(ctx context.Context, migrate func(context.Context) error, failed func(error)) error {
	for {
		err := migrate(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case !errors.Is(err, models.ErrUnavailable) && !errors.Is(err, models.ErrTimeout) && !errors.Is(err, models.ErrBusy):
			return err
		}
		failed(err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// pruneInterval is how long pruning rests after each thousand sessions. So it looks at a million sessions in an
// hour and a half, and nobody notices.
const pruneInterval = 5 * time.Second

// prune deletes sessions of which nothing is left, marks of changes that nobody needs, and the rest of removed
// events, until ctx ends. Every instance does so. Advisory locks keep two of them from deleting the same marks
// or events.
func prune(ctx context.Context, store *models.Store, log *slog.Logger) {
	var last models.ID
	go pruneAgain(ctx, log, "sessions", func() (err error) {
		last, _, err = store.PruneSessions(ctx, last)
		return err
	})
	go pruneAgain(ctx, log, "marks of changes", func() error {
		_, err := store.PruneChanges(ctx)
		return err
	})
	go pruneAgain(ctx, log, "removed events", func() error { return store.SweepEvents(ctx) })
}

// pruneAgain repeats one part of prune. The parts run side by side, because each may have much to do.
func pruneAgain(ctx context.Context, log *slog.Logger, what string, prune func() error) {
	for tick := time.Tick(pruneInterval); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if err := prune(); err != nil && ctx.Err() == nil {
			log.Debug(what+" not pruned", "error", err.Error())
		}
	}
}

// warn logs what is allowed but rarely meant, one line each.
func warn(c *config.Config, store *models.Store, listeners []net.Listener, log *slog.Logger) {
	for _, warning := range c.Warnings {
		log.Warn(warning)
	}
	if c.Development && slices.ContainsFunc(listeners, func(l net.Listener) bool { return !l.Addr().(*net.TCPAddr).IP.IsLoopback() }) {
		log.Warn("LISTEN_ADDR " + setup.OpenListener)
	}
	if files := store.SharedFiles(); len(files) > 0 {
		log.Warn("DATABASE_URL: other users of this machine can read or write the database: chmod 600", "files", files)
	}
}
