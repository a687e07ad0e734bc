package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// Source is a source of certificates.
type Source interface {
	// Config returns the configuration of a listener, with a certificate that may change.
	Config() *tls.Config
	// Expiry returns when the certificate expires, the zero time while there is none.
	Expiry() time.Time
}

// newConfig accepts TLS 1.2 and newer (RFC 9325 section 3.1.1), and leaves the rest to crypto/tls.
func newConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}
}

// unusable returns why clients of host would refuse leaf, or "".
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

// warning returns a fault of leaf for the operator, or "". A working renewal comes before the last fifth of its time.
func warning(leaf *x509.Certificate, host string) string {
	now := time.Now()
	why := unusable(leaf, host, now)
	if why == "" && leaf.NotAfter.Sub(now) < leaf.NotAfter.Sub(leaf.NotBefore)/5 {
		return "the certificate expires soon, at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return why
}
