package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// Source is where the certificate comes from.
type Source interface {
	// Config returns what a listener needs, with a certificate that may change at any time.
	Config() *tls.Config
	// Expiry returns when the certificate expires, the zero time while there is none.
	Expiry() time.Time
}

// newConfig returns a configuration that accepts TLS 1.2 and newer (RFC 9325 section 3.1.1). The rest is crypto/tls's own
// choice, which moves on with Go.
func newConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}
}

// unusable returns why clients of host refuse leaf at a time, "" if they do not for what it says itself.
func unusable(leaf *x509.Certificate, host string, now time.Time) string {
	switch {
	case now.Before(leaf.NotBefore):
		return "the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339)
	case now.After(leaf.NotAfter):
		return "the certificate has expired at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	case leaf.VerifyHostname(host) != nil:
		return fmt.Sprintf("the certificate is not for %s, the host of BASE_URL", host)
	}
	return ""
}

// warning returns what the operator should know of showing leaf to clients of host, "" for nothing. When a fifth of its time is
// left any renewal that works has renewed it.
func warning(leaf *x509.Certificate, host string) string {
	now := time.Now()
	why := unusable(leaf, host, now)
	if why == "" && leaf.NotAfter.Sub(now) < leaf.NotAfter.Sub(leaf.NotBefore)/5 {
		return "the certificate expires soon, at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return why
}
