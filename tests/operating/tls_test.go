package operating

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

const day = 24 * time.Hour

// withFiles is a program with a certificate of files.
func withFiles(t *testing.T, cert servicetest.Certificate, env ...string) *servicetest.Program {
	t.Helper()
	p := servicetest.NewProgram(t, append([]string{"TLS=files", "LOG_FORMAT=json"}, env...)...)
	cert.Write(t, filepath.Join(p.Dir, "tls"))
	return p
}

// shown returns the serial number of the certificate that a new connection shows.
func shown(t *testing.T, s *servicetest.Process, config *tls.Config) string {
	t.Helper()
	conn := servicetest.Must(tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), config))(t)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// With TLS=files the listener speaks TLS 1.2 and newer with the certificate of the folder, and HTTP/1.1 also to clients that
// know HTTP/2.
func TestTLSFiles(t *testing.T) {
	t.Parallel()
	cert := servicetest.NewCertificate(t, day, 90*day)
	p := withFiles(t, cert, "APP_ENV=production", "HSTS=max-age=60", fmt.Sprintf("BASE_URL=https://localhost:%d", servicetest.FreePort(t)))
	s := p.ServeReady()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := servicetest.Trusting("localhost", cert)
		config.MinVersion, config.MaxVersion = version, version
		res := servicetest.Must(servicetest.HTTPS(t, config, 0).Get(s.URL + servicetest.SessionPath))(t)
		res.Body.Close()
		if res.Proto != "HTTP/1.1" || res.StatusCode != 400 || res.Header.Get("Strict-Transport-Security") != "max-age=60" {
			t.Errorf("%s: %s %d %v", tls.VersionName(version), res.Proto, res.StatusCode, res.Header)
		}
	}
	old := servicetest.Trusting("localhost", cert)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err := servicetest.HTTPS(t, old, 0).Get(s.URL + servicetest.SessionPath)
	servicetest.True(t, err != nil, "TLS 1.1 is refused")
	plain := strings.Replace(s.URL, "https:", "http:", 1)
	servicetest.NewBrowser(plain, http.DefaultTransport).Do("GET", servicetest.SessionPath, "").Is(t, 400)
	servicetest.Is(t, s.Metric("worldevents_tls_certificate_expiry_timestamp_seconds"), float64(cert.Expires().Unix()), "expiry of the certificate")
	for line := range strings.Lines(s.Log.String()) { // neither the certificate nor failed handshakes
		servicetest.Lacks(t, line, "TLS")
	}
}

// HSTS can be turned off, and without TLS there is no metric of a certificate.
func TestTLSOff(t *testing.T) {
	t.Parallel()
	s := servicetest.NewProgram(t, "APP_ENV=production", "HSTS=").ServeReady()
	servicetest.Is(t, s.Ask("GET", servicetest.SessionPath, "", "").Header.Get("Strict-Transport-Security"), "", "Strict-Transport-Security")
	_, metrics := s.AdminBody("/metrics")
	servicetest.Contains(t, metrics, "worldevents_")
	servicetest.Lacks(t, metrics, "worldevents_tls_")
}

// Without a certificate and its key serve does not start, and says so in one line that names the folder. check says the same.
func TestTLSFaults(t *testing.T) {
	t.Parallel()
	cert, other := servicetest.NewCertificate(t, day, 90*day), servicetest.NewCertificate(t, day, 90*day)
	for name, prepare := range map[string]func(dir string){
		"no folder":   func(dir string) { os.RemoveAll(dir) },
		"no key":      func(dir string) { os.Remove(filepath.Join(dir, "key.pem")) },
		"another key": func(dir string) { os.WriteFile(filepath.Join(dir, "key.pem"), other.Key, 0o600) },
		"half a key":  func(dir string) { os.WriteFile(filepath.Join(dir, "key.pem"), cert.Key[:60], 0o600) },
		"a folder": func(dir string) {
			os.Remove(filepath.Join(dir, "cert.pem"))
			os.Mkdir(filepath.Join(dir, "cert.pem"), 0o700)
		},
		"no certificate": func(dir string) { os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("cert"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := withFiles(t, cert)
			prepare(filepath.Join(p.Dir, "tls"))
			p.Fails("TLS_DIR: ", "serve")
			servicetest.Finds(t, p, "fault", "^TLS_DIR: ")
		})
	}
}

// What is wrong with a certificate and does not keep serve from using it is a warning, of check, too.
func TestTLSWarnings(t *testing.T) {
	t.Parallel()
	shared, group := "chmod 600 tls/key.pem", "chmod 600 tls/key.pem"
	if os.Getuid() == 0 { // root lets the service read its keys
		shared, group = "chmod 640 tls/key.pem", ""
	}
	for name, test := range map[string]struct {
		over, left time.Duration
		host, want string
		mode       os.FileMode
	}{
		"good":         {60 * day, 30 * day, "localhost", "", 0o600},
		"soon":         {80 * day, 10 * day, "localhost", "the certificate expires soon", 0o600},
		"expired":      {80 * day, -time.Hour, "localhost", "the certificate has expired", 0o600},
		"not yet":      {-time.Hour, 80 * day, "localhost", "the certificate is not valid before", 0o600},
		"another host": {60 * day, 30 * day, "we.localhost", "the certificate is not for we.localhost", 0o600},
		"a shared key": {60 * day, 30 * day, "localhost", shared, 0o644},
		"a group's":    {60 * day, 30 * day, "localhost", group, 0o640},
		"short, good":  {4 * day, 2 * day, "localhost", "", 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := withFiles(t, servicetest.NewCertificate(t, test.over, test.left), fmt.Sprintf("BASE_URL=https://%s:1", test.host))
			os.Chmod(filepath.Join(p.Dir, "tls/key.pem"), test.mode)
			s := p.ServeReady()
			var warnings []string
			for line := range strings.Lines(s.Log.String()) {
				if strings.Contains(line, `"msg":"TLS: `) && strings.Contains(line, `"WARN"`) {
					warnings = append(warnings, line)
				}
			}
			if test.want == "" && len(warnings) > 0 || test.want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], test.want)) {
				t.Errorf("warnings %q, want %q", warnings, test.want)
			}
			result, _ := servicetest.Check(t, p)
			servicetest.True(t, result.OK, "check finds no fault: %+v", result)
			result.Has(t, "ok", "^TLS_DIR: has a certificate")
			if test.want != "" {
				result.Has(t, "warning", "^TLS_DIR: .*"+test.want)
			}
		})
	}
}

// Handshakes that do not come, or fail, keep nothing and say nothing.
func TestTLSHandshakes(t *testing.T) {
	t.Parallel()
	cert := servicetest.NewCertificate(t, day, 90*day)
	s := withFiles(t, cert).ServeReady()
	address := strings.TrimPrefix(s.URL, "https://")
	var silent []net.Conn
	for i := range 200 {
		conn := servicetest.Must(net.Dial("tcp", address))(t)
		defer conn.Close()
		switch i % 4 { // a connection says nothing, or the beginning of a hello, or what is none
		case 1:
			io.WriteString(conn, "\x16\x03\x01\x02")
		case 2:
			io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
		case 3:
			io.WriteString(conn, "\x80\x80\x80\x80\x80\x80\x80\x80")
		}
		silent = append(silent, conn)
	}
	begin := time.Now()
	for _, conn := range silent {
		conn.SetReadDeadline(begin.Add(time.Minute))
		if _, err := io.ReadAll(conn); os.IsTimeout(err) {
			t.Fatal("the service keeps a connection without a handshake")
		}
	}
	_, err := tls.Dial("tcp", address, servicetest.Trusting("localhost"))
	servicetest.True(t, err != nil, "no client trusts an unknown certificate")
	res := servicetest.Must(servicetest.HTTPS(t, servicetest.Trusting("localhost", cert), 0).Get(s.URL + servicetest.SessionPath))(t)
	res.Body.Close()
	servicetest.Lacks(t, s.Log.String(), "handshake")
}

// A certificate that clients would refuse replaces none that they accept, and then any other does.
func TestTLSReloadKeepsWhatWorks(t *testing.T) {
	t.Parallel()
	const host = "we.localhost"
	good := servicetest.NewCertificate(t, day, 90*day, host)
	p := withFiles(t, good, "BASE_URL=https://"+host+":1")
	s := p.ServeReady()
	anyOf := &tls.Config{InsecureSkipVerify: true, ServerName: host}
	for says, bad := range map[string]servicetest.Certificate{
		"the certificate is not for " + host:   servicetest.NewCertificate(t, day, 90*day),
		"the certificate is not valid before ": servicetest.NewCertificate(t, -time.Hour, 90*day, host),
		"the certificate has expired at ":      servicetest.NewCertificate(t, day, -time.Hour, host),
	} {
		bad.Write(t, filepath.Join(p.Dir, "tls"))
		s.HangUp(`"level":"ERROR","msg":"SIGHUP: the certificate stays as it is"`)
		servicetest.Contains(t, s.Log.String(), says)
		servicetest.Is(t, shown(t, s, anyOf), good.Serial, "the certificate")
	}
	better := servicetest.NewCertificate(t, day, 90*day, host)
	better.Write(t, filepath.Join(p.Dir, "tls"))
	s.HangUp("SIGHUP: the certificate was read again")
	servicetest.Is(t, shown(t, s, anyOf), better.Serial, "the certificate")
}

// SIGHUP takes over a new certificate while requests go on, on connections that are kept and on new ones. One that cannot be used
// changes nothing.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	first, second := servicetest.NewCertificate(t, day, 90*day), servicetest.NewCertificate(t, day, 90*day)
	expired, other := servicetest.NewCertificate(t, 2*day, -day), servicetest.NewCertificate(t, day, 90*day)
	p := withFiles(t, first)
	s := p.ServeReady()
	trust := servicetest.Trusting("localhost", first, second)

	var done atomic.Bool
	var requests atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		browser := servicetest.NewBrowser(s.URL, servicetest.HTTPS(t, trust, i%2).Transport)
		all.Go(func() {
			for !done.Load() && !t.Failed() {
				browser.Do("GET", servicetest.SessionPath, "").Is(t, 400)
				requests.Add(1)
			}
		})
	}
	dir := filepath.Join(p.Dir, "tls")
	for range 5 {
		for _, cert := range []servicetest.Certificate{second, first} {
			cert.Write(t, dir)
			s.HangUp("the certificate was read again")
			servicetest.Is(t, shown(t, s, trust), cert.Serial, "serial number")
		}
	}
	before := requests.Load()
	servicetest.Eventually(t, "requests go on", func() bool { return requests.Load() > before+20 })
	done.Store(true)
	all.Wait()

	const kept = `"level":"ERROR","msg":"SIGHUP: the certificate stays as it is"`
	for name, pair := range map[string]servicetest.Certificate{
		"another key":                 {Cert: first.Cert, Key: other.Key},
		"half a certificate":          {Cert: second.Cert[:len(second.Cert)/2], Key: second.Key},
		"an empty certificate":        {Key: second.Key},
		"key and certificate swapped": {Cert: second.Key, Key: second.Cert},
		"an expired certificate":      {Cert: expired.Cert, Key: expired.Key},
		"a large file":                {Cert: append(second.Cert, make([]byte, 1<<20)...), Key: second.Key},
	} {
		pair.Write(t, dir)
		s.HangUp(kept)
		servicetest.Is(t, shown(t, s, trust), first.Serial, "%s: the certificate", name)
	}
	os.Remove(filepath.Join(dir, "key.pem"))
	s.HangUp(kept)
	servicetest.NoError(t, syscall.Mkfifo(filepath.Join(dir, "key.pem"), 0o600))
	s.HangUp(kept)
	os.Remove(filepath.Join(dir, "key.pem"))
	servicetest.Is(t, shown(t, s, trust), first.Serial, "the certificate without a key")
	servicetest.Lacks(t, s.Log.String(), strings.Split(string(second.Key), "\n")[1])
	second.Write(t, dir)
	s.HangUp("the certificate was read again")
	servicetest.Is(t, shown(t, s, trust), second.Serial, "the certificate after errors")
}
