package certificate

import (
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
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

const (
	// A failed order is repeated after firstWait, then twice as long, up to maxWait: Let's Encrypt allows five failures an hour.
	firstWait = time.Minute + 5*time.Second // for a minute autocert fails by itself
	maxWait   = time.Hour
	// warnInterval is how often the log says that there is no good certificate.
	warnInterval = time.Hour
	// acmeTimeout is for one request to the authority.
	acmeTimeout = 30 * time.Second
)

// ACME is the certificate that an authority gives for one host. The first handshake orders it. From then on autocert renews it when a
// third of its time is left, or 30 days.
type ACME struct {
	host    string
	manager *autocert.Manager
	log     *slog.Logger

	mu     sync.Mutex    // one handshake orders, and the others wait for what comes of it
	wait   time.Duration // after the last order, which has failed; otherwise 0
	next   time.Time     // no order before
	warned time.Time     // last
}

// OpenACME prepares to ask the authority of a directory, "" for Let's Encrypt, for a certificate for host. The folder dir
// keeps it, its key and that of the account, for their owner alone. OpenACME makes the folder, and returns an error when
// nothing can be kept there: each start would order another certificate, of which authorities give few a week.
func OpenACME(dir, host, directory string, log *slog.Logger) (*ACME, error) {
	if err := CheckFolder(dir); err != nil {
		return nil, err
	}
	cache := autocert.DirCache(dir)
	if err := cache.Put(context.Background(), "probe", nil); err != nil {
		return nil, withoutOperation(dir, err)
	}
	cache.Delete(context.Background(), "probe")
	a := &ACME{host: strings.ToLower(host), log: log}
	a.manager = &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: cache, HostPolicy: a.policy, Client: newClient(directory)}
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
	ctx, cancel := context.WithTimeout(ctx, acmeTimeout)
	defer cancel()
	if _, err := newClient(directory).Discover(ctx); err != nil {
		return fmt.Errorf("the authority is away: %w", err)
	}
	return nil
}

// Config implements Source. The handshake of another host ends with the alert unrecognized_name (RFC 6066 section 3).
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Before(a.next) && a.Expiry().Before(now) { // another instance may have kept one
		return nil, errors.New("the last order has failed, and the next one is not due yet")
	}
	// All clients have the certificate of an ECDSA key: those of TLS 1.2 and newer can verify it.
	cert, err := a.manager.GetCertificate(&tls.ClientHelloInfo{
		ServerName: a.host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	})
	now, why := time.Now(), ""
	if err == nil {
		a.wait, why = 0, warning(cert.Leaf, a.host, now)
	} else {
		a.wait, why = min(max(2*a.wait, firstWait), maxWait), err.Error()
		if _, away := errors.AsType[*url.Error](err); away {
			a.wait = firstWait // it costs an authority that is away nothing
		}
	}
	a.next = now.Add(a.wait)
	if why != "" && now.Sub(a.warned) >= warnInterval {
		a.warned = now
		a.log.Warn("no good certificate: the authority must reach this service at port 443, or at port 80 with HTTP_ADDR",
			"host", a.host, "error", why, "next_try", a.wait.String())
	}
	return cert, err
}

// Expiry implements Source: it looks at the certificate that is kept.
func (a *ACME) Expiry() time.Time {
	text, _ := a.manager.Cache.Get(context.Background(), a.host)
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// Warnings implements Source: of what there is yet nobody has to be told.
func (a *ACME) Warnings() []string { return nil }

// Handler serves HTTP-01 challenges (RFC 8555 section 8.3), and hands all else on.
func (a *ACME) Handler(next http.Handler) http.Handler {
	challenges := a.manager.HTTPHandler(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/") {
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
