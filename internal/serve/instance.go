package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
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
	"worldevents/server/certificate"
)

// instance is a service that runs, or is about to.
type instance struct {
	config      *config.Config
	log         *slog.Logger
	store       *models.Store
	certificate certificate.Source // nil without TLS
	server      *server.Server
	listeners   []net.Listener // of the public server
	public      *http.Server
	beside      []*http.Server // the other servers
	errc        chan error     // has why a server, or the migration, has failed
}

// prepare makes all parts, and opens the public listeners once all settings are known to be usable. From then on the kernel takes
// connections, so that a short restart refuses nobody.
func (i *instance) prepare(contract setup.Contract) (err error) {
	if i.config, err = config.Load(true); err != nil {
		return err
	}
	c := i.config
	if i.store, err = setup.Store(c, c.DBTimeout); err != nil {
		return err
	}
	var accessLog *slog.Logger
	i.log, accessLog = logs.New(c)
	if i.listeners, err = listenEach(c.ListenAddrs); err != nil {
		return fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	// The system may have chosen the port.
	c.UsePort(i.listeners[0].Addr().(*net.TCPAddr).Port)
	if i.certificate, err = setup.Certificate(c, i.log); err != nil {
		return err
	}
	options, err := setup.Server(c, contract, i.store, i.log, accessLog)
	if err != nil {
		return err
	}
	if i.certificate != nil {
		options.CertificateExpiry = i.certificate.Expiry
	}
	if i.server, err = server.New(options); err != nil {
		return err
	}
	i.warn()
	return nil
}

// serve begins to serve on all listeners.
func (i *instance) serve() error {
	i.public = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      config.WriteTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    12 << 10, // net/http adds 4 KiB
		ErrorLog:          slog.NewLogLogger(i.log.Handler(), slog.LevelDebug),
	}
	if i.certificate != nil {
		i.public.TLSConfig = i.certificate.Config()
	}
	i.server.Attach(i.public)
	for _, l := range i.listeners {
		go serve(i.public, l, i.errc)
	}
	return i.serveBeside()
}

// serveBeside serves on ADMIN_ADDR and HTTP_ADDR.
func (i *instance) serveBeside() error {
	if i.config.AdminAddr != "" {
		// There is no WriteTimeout: a profile takes as long as the operator asked for.
		admin := &http.Server{Handler: i.server.Admin, ReadHeaderTimeout: 5 * time.Second}
		if err := i.serveAt("ADMIN_ADDR", i.config.AdminAddr, admin); err != nil {
			return err
		}
	}
	if i.config.HTTPAddr != "" {
		plain := plainServer(i.config.Base, i.certificate, i.log)
		i.server.Bound(plain)
		return i.serveAt("HTTP_ADDR", i.config.HTTPAddr, plain)
	}
	return nil
}

func (i *instance) serveAt(setting, address string, s *http.Server) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	i.beside = append(i.beside, s)
	go serve(s, l, i.errc)
	return nil
}

// stop completes what is in flight, in the order that doc.go draws.
func (i *instance) stop(got os.Signal) {
	i.server.Drain()
	i.log.Info("stopping")
	deadline, cancel := context.WithTimeout(context.Background(), i.config.ShutdownTimeout)
	defer cancel()
	if got == syscall.SIGTERM { // from a supervisor; a person at a terminal waits for nobody
		time.Sleep(i.config.ShutdownTimeout / drainFraction)
	}
	if err := i.public.Shutdown(deadline); err != nil {
		i.log.Warn("requests were still in flight at SHUTDOWN_TIMEOUT")
		i.public.Close()
	}
}

// close closes the store last.
func (i *instance) close() {
	for _, s := range i.beside {
		s.Close()
	}
	if i.store != nil {
		i.store.Close()
	}
}

func (i *instance) logServing() {
	this := build.Read()
	i.log.Info("serving", "version", this.Version, "commit", this.Commit, "commit_time", this.Time,
		"address", addresses(i.listeners), "base_url", i.config.BaseURL, "environment", i.config.AppEnv)
}

func (i *instance) warn() {
	i.logWarnings("", i.config.Warnings)
	if files, ok := i.certificate.(*certificate.Files); ok {
		i.logWarnings("TLS: ", files.Warnings())
	}
	if i.config.Development && slices.ContainsFunc(i.listeners, func(l net.Listener) bool { return !l.Addr().(*net.TCPAddr).IP.IsLoopback() }) {
		i.log.Warn("LISTEN_ADDR " + setup.OpenListener)
	}
}

func (i *instance) logWarnings(prefix string, warnings []string) {
	for _, warning := range warnings {
		i.log.Warn(prefix + warning)
	}
}

// listenEach listens on every address that this machine has, at least one: not every machine has IPv6.
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

// serve serves on a listener until Shutdown or Close. Any other end goes to errc.
func serve(s *http.Server, l net.Listener, errc chan<- error) {
	serve := s.Serve
	if s.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		errc <- err
	}
}

func addresses(listeners []net.Listener) string {
	var text []string
	for _, l := range listeners {
		text = append(text, l.Addr().String())
	}
	return strings.Join(text, ", ")
}
