package acme

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// patience is for a certificate. It takes the authority a second or two; but where the first order fails, as it may on a busy machine,
// the next one comes with a handshake more than a minute later.
const patience = 2 * time.Minute

// newProgram is the program with TLS=acme, which asks an authority that is yet to be started.
func newProgram(t *testing.T, s settings, env ...string) (*servicetest.Program, *authority) {
	t.Helper()
	port := servicetest.FreePort(t)
	if s.TLSPort == 0 {
		s.TLSPort = port
	}
	a := newAuthority(t, s)
	return servicetest.NewProgram(t, append([]string{
		"APP_ENV=production", "TLS=acme", "BASE_URL=https://We.Example.test", fmt.Sprintf("LISTEN_ADDR=127.0.0.1:%d", port),
		"ACME_DIRECTORY=" + a.directory, "SSL_CERT_FILE=" + a.root,
	}, env...)...), a
}

// noCertificate begins a line of the log, and expiry is a metric.
const noCertificate, expiry = `"level":"WARN","msg":"no good certificate:`, "worldevents_tls_certificate_expiry_timestamp_seconds"

// handshake returns the certificate that a client who asks for a host is shown.
func handshake(s *servicetest.Process, host string, roots *x509.CertPool) (*x509.Certificate, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{ServerName: host, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// waitCertificate waits until the host's certificate is there, and trusted by way of roots.
func waitCertificate(t *testing.T, s *servicetest.Process, a *authority, roots *x509.CertPool) (cert *x509.Certificate) {
	t.Helper()
	servicetest.Within(t, patience, "there is a certificate", func() (ok bool) {
		var err error
		cert, err = handshake(s, a.host, roots)
		return err == nil
	})
	return cert
}

// The first start gets a certificate by TLS-ALPN-01, for the host of BASE_URL and nobody else. The next starts have it from
// the folder, also while the authority is away.
func TestFirstCertificate(t *testing.T) {
	t.Parallel()
	p, a := newProgram(t, settings{})
	a.start()
	s, roots := p.ServeReady(), a.roots()
	cert := waitCertificate(t, s, a, roots)

	for _, host := range []string{"other.example.test", "example.test", "a." + a.host, "localhost", "127.0.0.1"} {
		if _, err := handshake(s, host, nil); err == nil || err.Error() != "remote error: tls: unrecognized name" {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := handshake(s, strings.ToUpper(a.host), roots); err != nil {
		t.Error(err)
	}
	servicetest.Is(t, s.Metric(expiry), float64(cert.NotAfter.Unix()), expiry)
	isPrivate(t, filepath.Join(p.Dir, "tls"))

	s.Stop()
	again := p.ServeReady()
	if kept := waitCertificate(t, again, a, roots); !kept.Equal(cert) || a.issued() != 1 {
		t.Errorf("the certificate is another after a restart; issued were %d", a.issued())
	}
	again.Stop()
	a.stop()
	if kept := waitCertificate(t, p.ServeReady(), a, roots); !kept.Equal(cert) {
		t.Error("the certificate is another while the authority is away")
	}
}

// isPrivate fails the test unless a folder and its files are their owner's alone.
func isPrivate(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files in %s: %v", files, dir, err)
	}
}

// Where the authority cannot connect to the TLS listener, it finds the challenge at HTTP_ADDR, which redirects all else.
func TestHTTPChallenge(t *testing.T) {
	t.Parallel()
	port := servicetest.FreePort(t)
	plain := fmt.Sprintf("127.0.0.1:%d", port)
	p, a := newProgram(t, settings{TLSPort: servicetest.FreePort(t), HTTPPort: port}, "HTTP_ADDR="+plain)
	a.start()
	waitCertificate(t, p.ServeReady(), a, a.roots())
	for path, want := range map[string]string{
		"/sign-in?x":                   "308 https://We.Example.test/sign-in?x",
		"/.well-known/acme-challenge/": "404 ",
		"/.well-known/acme-challenge/" + strings.Repeat("x", 300): "404 ", // too long for the name of a file
	} {
		res := servicetest.NewBrowser("http://"+plain, &http.Transport{DisableKeepAlives: true}).Do("GET", path, "", func(r *http.Request) { r.Host = a.host })
		servicetest.Is(t, fmt.Sprint(res.Status, " ", res.Header.Get("Location"), res.Body), want, "%s", path)
	}
}

// A certificate of which less than a third is left is renewed, and no handshake fails meanwhile.
func TestRenewal(t *testing.T) {
	t.Parallel()
	p, a := newProgram(t, settings{})
	a.start()
	first := servicetest.NewCertificate(t, 70*24*time.Hour, 20*24*time.Hour, a.host)
	kept := filepath.Join(p.Dir, "tls", a.host)
	servicetest.NoError(t, os.Mkdir(filepath.Dir(kept), 0o700))
	servicetest.WriteSecret(t, kept, string(first.Key)+string(first.Cert))
	s, roots := p.ServeReady(), a.roots()
	roots.AppendCertsFromPEM(first.Cert)
	waitCertificate(t, s, a, roots)
	servicetest.Within(t, patience, "the certificate is renewed", func() bool {
		now, err := handshake(s, a.host, roots)
		if err != nil {
			t.Errorf("%v", err)
			return true
		}
		return now.NotAfter.After(first.Expires())
	})
	servicetest.Within(t, patience, "the renewed one is kept", func() bool {
		text, _ := os.ReadFile(kept)
		pair, err := tls.X509KeyPair(text, text)
		return err == nil && pair.Leaf.NotAfter.After(first.Expires())
	})
}

// An authority that is away at start keeps the service from being ready as little as one that refuses: handshakes fail, the
// log says why, and go on when the authority is there.
func TestAuthorityAway(t *testing.T) {
	t.Parallel()
	p, a := newProgram(t, settings{})
	s := p.ServeReady()
	if _, err := handshake(s, a.host, nil); err == nil {
		t.Error("there is a certificate without an authority")
	}
	s.Says(noCertificate, 1)
	servicetest.Is(t, s.Metric(expiry), 0, expiry)
	servicetest.Finds(t, p, "warning", "^ACME_DIRECTORY: ")
	a.start()
	waitCertificate(t, s, a, a.roots())
	servicetest.Lacks(t, s.Log.String(), "PRIVATE KEY")
	servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
}

// An authority that refuses the host is asked again after a while, whoever asks meanwhile, and the log says why and when.
func TestAuthorityRefuses(t *testing.T) {
	t.Parallel()
	p, a := newProgram(t, settings{Blocked: []string{"we.example.test"}})
	a.start()
	s := p.ServeReady()
	for range 3 {
		if _, err := handshake(s, a.host, nil); err == nil {
			t.Error("there is a certificate")
		}
	}
	s.Says(noCertificate, 1)
	s.Says(`"next_try":"1m5s"`, 1)
	servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
	servicetest.Finds(t, p, "ok", "^ACME_DIRECTORY: ")
}
