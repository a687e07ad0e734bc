package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
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
	// acmeTimeout is for one request to the authority.
	acmeTimeout = 30 * time.Second
)

// ACME is the certificate of an authority for one host. The first handshake orders it; autocert renews it with a third of its
// time, or 30 days, left.
type ACME struct {
	dir, host string
	manager   *autocert.Manager
	log       *slog.Logger

	mu     sync.Mutex    // one handshake orders, and the others wait
	wait   time.Duration // after a failed order; otherwise 0
	next   time.Time     // no order before
	warned time.Time     // last
}

// OpenACME uses the authority at directory, "" for Let's Encrypt. It makes the folder dir, which keeps the certificate and both keys for
// their owner alone. It returns an error for a folder that keeps nothing: each start would order one of the few certificates of a week.
func OpenACME(dir, host, directory string, log *slog.Logger) (*ACME, error) {
	cache := autocert.DirCache(dir)
	if err := cache.Put(context.Background(), "probe", nil); err != nil {
		return nil, err
	}
	cache.Delete(context.Background(), "probe")
	// A policy of hosts is not needed: get asks for one host, and a challenge over HTTP is no secret.
	client := &acme.Client{DirectoryURL: directory, HTTPClient: &http.Client{Timeout: acmeTimeout}}
	manager := &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: cache, Client: client}
	return &ACME{dir: dir, host: strings.ToLower(host), manager: manager, log: log}, nil
}

// CheckAuthority returns an error unless the authority at directory, "" for Let's Encrypt, responds.
func CheckAuthority(ctx context.Context, directory string) error {
	ctx, cancel := context.WithTimeout(ctx, acmeTimeout)
	defer cancel()
	_, err := (&acme.Client{DirectoryURL: directory}).Discover(ctx)
	return err
}

// Config implements Source. A handshake for another host ends with the alert unrecognized_name (RFC 6066 section 3).
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
	ecdsa := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	cert, err := a.manager.GetCertificate(&tls.ClientHelloInfo{ServerName: a.host, CipherSuites: ecdsa})
	var why string
	if err == nil {
		a.wait, why = 0, warning(cert.Leaf, a.host)
	} else {
		a.wait, why = min(max(2*a.wait, firstWait), maxWait), err.Error()
	}
	now := time.Now()
	a.next = now.Add(a.wait)
	if why != "" && now.Sub(a.warned) >= time.Hour {
		a.warned = now
		a.log.Warn("no good certificate: the authority must reach this service at port 443, or at port 80 with HTTP_ADDR",
			"host", a.host, "error", why, "next_try", a.wait.String())
	}
	return cert, err
}

// Expiry implements Source.
func (a *ACME) Expiry() time.Time {
	kept := filepath.Join(a.dir, a.host) // by autocert, the key first
	pair, err := tls.LoadX509KeyPair(kept, kept)
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// Handler serves HTTP-01 challenges (RFC 8555 section 8.3), and passes other requests to next.
func (a *ACME) Handler(next http.Handler) http.Handler {
	challenges := a.manager.HTTPHandler(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/") {
			challenges.ServeHTTP(silentWriter{w}, r)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// silentWriter leaves out error texts, which may name files. An error has a Content-Type, a challenge none.
type silentWriter struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (w silentWriter) Write(p []byte) (int, error) {
	if w.Header().Get("Content-Type") != "" {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}
