package certificate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

const (
	// awayRetry is how long to wait for an authority that is away, which costs it nothing.
	awayRetry = 5 * time.Second
	// An authority that has refused an order is asked again after refusedRetry, then twice as long, up to maxRetry: Let's
	// Encrypt allows five failures an hour.
	refusedRetry = time.Minute + 5*time.Second // for a minute autocert returns the last error
	maxRetry     = time.Hour
	// lookInterval is how often a renewed certificate is looked for.
	lookInterval = time.Second
	// warnInterval is how often the log says that a certificate should have been renewed.
	warnInterval = time.Hour
	// acmeTimeout is for one request to the authority.
	acmeTimeout = 30 * time.Second
)

var (
	errNone = errors.New("there is no certificate yet")
	errAway = errors.New("the authority is away")
)

// ACME is the certificate that an authority gives for one host. It is renewed when a third of its time is left, or 30
// days.
type ACME struct {
	host    string
	manager *autocert.Manager
	current
	warned time.Time // last
}

// OpenACME prepares to ask the authority of a directory, "" for Let's Encrypt, for a certificate for host. The folder dir
// keeps it, its key and that of the account, for their owner alone. OpenACME makes the folder, and returns an error when
// nothing can be kept there: each start would order another certificate, of which authorities give few a week.
func OpenACME(dir, host, directory string) (*ACME, error) {
	if err := CheckFolder(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, withoutOperation(dir, err)
	}
	probe, err := os.CreateTemp(dir, "probe")
	if err != nil {
		return nil, withoutOperation(dir, err)
	}
	probe.Close()
	os.Remove(probe.Name())
	a := &ACME{host: strings.ToLower(host)}
	a.manager = &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(dir), HostPolicy: a.policy, Client: newClient(directory)}
	return a, nil
}

// policy returns an error for another host. That of an HTTP request may have a port.
func (a *ACME) policy(_ context.Context, host string) error {
	if !strings.EqualFold((&url.URL{Host: host}).Hostname(), a.host) {
		return errors.New("another host")
	}
	return nil
}

// CheckFolder returns an error for a folder that OpenACME could not use, as far as its mode says, and changes nothing. A
// folder that does not exist will be made.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return withoutOperation(dir, err)
	case !info.IsDir():
		return fmt.Errorf("%s: is no folder", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: its mode lets others write it: chmod 700 %s", dir, dir)
	}
	return nil
}

// newClient returns a client of the authority of a directory, "" for Let's Encrypt.
func newClient(directory string) *acme.Client {
	return &acme.Client{
		DirectoryURL: cmp.Or(directory, acme.LetsEncryptURL), UserAgent: "worldevents", HTTPClient: &http.Client{Timeout: acmeTimeout},
	}
}

// CheckAuthority returns an error unless the authority of a directory, "" for Let's Encrypt, responds.
func CheckAuthority(ctx context.Context, directory string) error {
	return discover(ctx, newClient(directory))
}

// discover returns an error unless the authority responds, once it has.
func discover(ctx context.Context, client *acme.Client) error {
	ctx, cancel := context.WithTimeout(ctx, acmeTimeout)
	defer cancel()
	if _, err := client.Discover(ctx); err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return nil
}

// Config implements Source. The handshake of another host ends with the alert unrecognized_name (RFC 6066 section 3), and
// none waits for the authority.
func (a *ACME) Config() *tls.Config {
	config := newConfig(a.get)
	config.NextProtos = []string{acme.ALPNProto} // RFC 8737; package net/http adds its own
	return config
}

func (a *ACME) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	switch {
	case !strings.EqualFold(hello.ServerName, a.host):
		return nil, nil
	case slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}):
		return a.manager.GetCertificate(hello)
	}
	if cert := a.Load(); cert != nil {
		return cert, nil
	}
	return nil, errNone
}

// Handler serves HTTP-01 challenges (RFC 8555 section 8.3), and hands all else on.
func (a *ACME) Handler(next http.Handler) http.Handler {
	const path = "/.well-known/acme-challenge/"
	challenges := a.manager.HTTPHandler(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, path) {
			challenges.ServeHTTP(&silentWriter{ResponseWriter: w}, r)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// silentWriter leaves out what autocert says of an error, which may name files.
type silentWriter struct {
	http.ResponseWriter
	failed bool
}

// WriteHeader implements http.ResponseWriter.
func (w *silentWriter) WriteHeader(status int) {
	w.failed = status >= 400
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *silentWriter) Write(p []byte) (int, error) {
	if w.failed {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Warnings implements Source: of what there is yet nobody has to be told.
func (a *ACME) Warnings() []string { return nil }

// Run has a certificate at all times, if the authority gives one, until ctx ends.
func (a *ACME) Run(ctx context.Context, log *slog.Logger) {
	refused := refusedRetry
	for {
		wait := lookInterval
		switch err := a.look(ctx, log); {
		case err == nil:
			refused = refusedRetry
		case ctx.Err() != nil:
			return
		case errors.Is(err, errAway):
			wait = awayRetry
			log.Warn("waiting for the certificate's authority", "error", err.Error())
		default:
			wait, refused = refused, min(2*refused, maxRetry)
			log.Error("no certificate: the authority must reach this service at port 443, or at port 80 with HTTP_ADDR",
				"host", a.host, "error", err.Error(), "next_try", wait.String())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// look takes over the certificate that the manager has, which is one of the folder, of the authority, or a renewed one.
func (a *ACME) look(ctx context.Context, log *slog.Logger) error {
	old := a.Load()
	if old == nil && !a.isKept(ctx) {
		if err := discover(ctx, a.manager.Client); err != nil {
			return err
		}
	}
	// All clients have the certificate of an ECDSA key: those of TLS 1.2 and newer can verify it.
	cert, err := a.manager.GetCertificate(&tls.ClientHelloInfo{
		ServerName: a.host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	})
	if err != nil {
		return err
	}
	if old == nil || !bytes.Equal(old.Certificate[0], cert.Certificate[0]) {
		a.Store(cert)
		log.Info("certificate", "host", a.host, "expires", cert.Leaf.NotAfter)
	}
	now := time.Now()
	if late := warning(cert.Leaf, a.host, now); late != "" && now.Sub(a.warned) >= warnInterval {
		a.warned = now
		log.Warn("TLS: "+late+": it should have been renewed", "host", a.host)
	}
	return nil
}

// isKept reports whether the folder has a certificate that has not expired.
func (a *ACME) isKept(ctx context.Context) bool {
	text, err := a.manager.Cache.Get(ctx, a.host)
	if err != nil {
		return false
	}
	pair, err := tls.X509KeyPair(text, text)
	return err == nil && time.Now().Before(pair.Leaf.NotAfter)
}
