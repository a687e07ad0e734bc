package acme

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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

// days are the validity of ordinary certificates, in seconds.
const days = 90 * 24 * 3600

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

// noCertificate begins a line of the log.
const noCertificate = `"level":"WARN","msg":"no good certificate:`

func profile(validity int) map[string]config { return map[string]config{"default": {validity}} }

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
	servicetest.Eventually(t, patience, "there is a certificate", func() (ok bool) {
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
	p, a := newProgram(t, settings{Profiles: profile(days)})
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
	if want := fmt.Sprintf("\nworldevents_tls_certificate_expiry_timestamp_seconds %g\n", float64(cert.NotAfter.Unix())); !hasMetric(s, want) {
		t.Errorf("no metric %s", want)
	}
	isPrivate(t, filepath.Join(p.Dir, "tls"))

	stop(t, s)
	again := p.ServeReady()
	if kept := waitCertificate(t, again, a, roots); !kept.Equal(cert) || a.issued() != 1 {
		t.Errorf("the certificate is another after a restart; issued were %d", a.issued())
	}
	stop(t, again)
	a.stop()
	if kept := waitCertificate(t, p.ServeReady(), a, roots); !kept.Equal(cert) {
		t.Error("the certificate is another while the authority is away")
	}
}

func hasMetric(s *servicetest.Process, text string) bool {
	_, body := s.AdminBody("/metrics")
	return strings.Contains(body, text)
}

// stop ends a process as a person does.
func stop(t *testing.T, s *servicetest.Process) {
	t.Helper()
	s.Signal(os.Interrupt)
	if status := s.Wait(20 * time.Second); status != 0 {
		t.Errorf("exit status %d", status)
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
	p, a := newProgram(t, settings{TLSPort: servicetest.FreePort(t), HTTPPort: port, Profiles: profile(days)}, "HTTP_ADDR="+plain)
	a.start()
	waitCertificate(t, p.ServeReady(), a, a.roots())
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{
		"/sign-in?x":                   "308 https://We.Example.test/sign-in?x",
		"/.well-known/acme-challenge/": "404 ",
		"/.well-known/acme-challenge/" + strings.Repeat("x", 300): "404 ", // too long for the name of a file
	} {
		r, _ := http.NewRequest("GET", "http://"+plain+path, nil)
		r.Host = a.host
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location")); got != want || len(text) > 0 {
			t.Errorf("%s: %s, want %s: %s", path, got, want, text)
		}
	}
}

// A certificate of which less than a third is left is renewed, and no handshake fails meanwhile.
func TestRenewal(t *testing.T) {
	t.Parallel()
	p, a := newProgram(t, settings{Profiles: profile(days)})
	a.start()
	first := servicetest.NewCertificate(t, 70*24*time.Hour, 20*24*time.Hour, a.host)
	kept := filepath.Join(p.Dir, "tls", a.host)
	if err := errors.Join(os.Mkdir(filepath.Dir(kept), 0o700), os.WriteFile(kept, append(first.Key, first.Cert...), 0o600)); err != nil {
		t.Fatal(err)
	}
	s, roots := p.ServeReady(), a.roots()
	roots.AppendCertsFromPEM(first.Cert)
	waitCertificate(t, s, a, roots)
	servicetest.Eventually(t, patience, "the certificate is renewed", func() bool {
		now, err := handshake(s, a.host, roots)
		if err != nil {
			t.Errorf("%v", err)
			return true
		}
		return now.NotAfter.After(first.Expires())
	})
	servicetest.Eventually(t, patience, "the renewed one is kept", func() bool {
		text, _ := os.ReadFile(kept)
		pair, err := tls.X509KeyPair(text, text)
		return err == nil && pair.Leaf.NotAfter.After(first.Expires())
	})
}

// An authority that is away at start keeps the service from being ready as little as one that refuses: handshakes fail, the
// log says why, and go on when the authority is there.
func TestAuthorityAway(t *testing.T) {
	t.Parallel()
	p, a := newProgram(t, settings{Profiles: profile(days)})
	s := p.ServeReady()
	if _, err := handshake(s, a.host, nil); err == nil {
		t.Error("there is a certificate without an authority")
	}
	servicetest.Eventually(t, patience, "the log says so", func() bool {
		return strings.Contains(s.Log.String(), noCertificate)
	})
	if !hasMetric(s, "\nworldevents_tls_certificate_expiry_timestamp_seconds 0\n") {
		t.Error("no metric of a certificate that is missing")
	}
	stdout, stderr, status := p.Run("check")
	if status != 0 || !strings.Contains(stderr, "warning: ACME_DIRECTORY: ") {
		t.Errorf("check: status %d, stderr %s, stdout %s", status, stderr, stdout)
	}
	a.start()
	waitCertificate(t, s, a, a.roots())
	if strings.Contains(s.Log.String(), "PRIVATE KEY") || s.Admin("/readyz") != 200 {
		t.Errorf("/readyz %d: %s", s.Admin("/readyz"), s.Log)
	}
}

// An authority that refuses the host is asked again after a while, whoever asks meanwhile, and the log says why and when.
func TestAuthorityRefuses(t *testing.T) {
	t.Parallel()
	p, a := newProgram(t, settings{Profiles: profile(days), Blocked: []string{"we.example.test"}})
	a.start()
	s := p.ServeReady()
	for range 3 {
		if _, err := handshake(s, a.host, nil); err == nil {
			t.Error("there is a certificate")
		}
	}
	servicetest.Eventually(t, patience, "the log says so", func() bool {
		return strings.Contains(s.Log.String(), noCertificate) && strings.Contains(s.Log.String(), `"next_try":"1m5s"`)
	})
	if lines := strings.Count(s.Log.String(), noCertificate); lines != 1 {
		t.Errorf("%d lines: %s", lines, s.Log)
	}
	if status := s.Admin("/readyz"); status != 200 {
		t.Errorf("/readyz %d", status)
	}
	result, _, _ := p.Run("check")
	if !strings.Contains(result, `"about": "ACME_DIRECTORY"`) && !strings.Contains(result, `"about":"ACME_DIRECTORY"`) {
		t.Errorf("check: %s", result)
	}
}

// A folder that others can write is no place for keys, and one that nothing can be written into keeps none.
func TestFolder(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(dir string) error{
		"others write": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a file":       func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		p, _ := newProgram(t, settings{Profiles: profile(days)})
		if err := prepare(filepath.Join(p.Dir, "tls")); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"serve", "check"} {
			if _, stderr, status := p.Run(command); status != 1 || !strings.Contains(stderr, "TLS_DIR: ") {
				t.Errorf("%s: %s: status %d: %s", name, command, status, stderr)
			}
		}
	}
}
