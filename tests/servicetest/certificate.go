package servicetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Certificate is one that signs itself.
type Certificate struct {
	// Cert and Key are PEM.
	Cert, Key []byte
	// Serial tells certificates apart.
	Serial string

	leaf *x509.Certificate
}

// NewCertificate makes a certificate for localhost, 127.0.0.1 and names, of which so much time is over and left.
func NewCertificate(tb testing.TB, over, left time.Duration, names ...string) Certificate {
	tb.Helper()
	key := Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(tb)
	serial := Must(rand.Int(rand.Reader, big.NewInt(1<<62)))(tb)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-over), NotAfter: time.Now().Add(left), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append([]string{"localhost"}, names...), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(tb)
	keyDER := Must(x509.MarshalPKCS8PrivateKey(key))(tb)
	return Certificate{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		Serial: serial.String(), leaf: Must(x509.ParseCertificate(der))(tb),
	}
}

// shared is the certificate of every Service. ECDSA costs a handshake less than the RSA of httptest.
var shared struct {
	once sync.Once
	pair tls.Certificate
}

func certificate(tb testing.TB) tls.Certificate {
	tb.Helper()
	shared.once.Do(func() {
		c := NewCertificate(tb, 0, 24*time.Hour)
		shared.pair = Must(tls.X509KeyPair(c.Cert, c.Key))(tb)
	})
	return shared.pair
}

// Write writes cert.pem and key.pem into a folder, which it makes.
func (c Certificate) Write(tb testing.TB, dir string) {
	tb.Helper()
	NoError(tb, os.MkdirAll(dir, 0o700))
	for name, text := range map[string][]byte{"cert.pem": c.Cert, "key.pem": c.Key} {
		NoError(tb, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
}

// Trusting returns the configuration of a client that trusts these certificates alone, for a host.
func Trusting(host string, all ...Certificate) *tls.Config {
	roots := x509.NewCertPool()
	for _, c := range all {
		roots.AddCert(c.leaf)
	}
	return &tls.Config{RootCAs: roots, ServerName: host} // a client of the tests, which also tries old versions
}

// HTTPS returns a client with a configuration, which follows no redirect and keeps idle connections for as many requests
// at once. Those end with the test.
func HTTPS(tb testing.TB, config *tls.Config, conns int) *http.Client {
	transport := &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: conns == 0, MaxIdleConnsPerHost: conns, DisableCompression: true,
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: followNone}
}

// Expires returns when the certificate expires.
func (c Certificate) Expires() time.Time { return c.leaf.NotAfter }
