package operating

import (
	"io"
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

// hangUp sends SIGHUP and waits until the log says this.
func hangUp(t *testing.T, s *servicetest.Process, want string) {
	t.Helper()
	n := len(s.Log.String())
	s.Signal(syscall.SIGHUP)
	servicetest.Eventually(t, 20*time.Second, want, func() bool { return strings.Contains(s.Log.String()[n:], want) })
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

	stop, requests := make(chan struct{}), new(atomic.Int64)
	var all sync.WaitGroup
	for i := range 4 {
		client := servicetest.HTTPS(t, trust, i%2)
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := client.Get(s.URL + servicetest.SessionPath)
				if err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				servicetest.Is(t, res.StatusCode, 400, "status")
				requests.Add(1)
			}
		})
	}
	dir := filepath.Join(p.Dir, "tls")
	write := func(cert, key []byte) {
		t.Helper()
		for name, text := range map[string][]byte{"cert.pem": cert, "key.pem": key} {
			servicetest.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
	}
	for range 5 {
		for _, cert := range []servicetest.Certificate{second, first} {
			cert.Write(t, dir)
			hangUp(t, s, "the certificate was read again")
			servicetest.Is(t, shown(t, s, trust), cert.Serial, "serial number")
		}
	}
	before := requests.Load()
	servicetest.Eventually(t, 20*time.Second, "requests go on", func() bool { return requests.Load() > before+20 })
	close(stop)
	all.Wait()

	const kept = `"level":"ERROR","msg":"SIGHUP: the certificate stays as it is"`
	for name, pair := range map[string][2][]byte{
		"another key":                 {first.Cert, other.Key},
		"half a certificate":          {second.Cert[:len(second.Cert)/2], second.Key},
		"half a key":                  {second.Cert, second.Key[:len(second.Key)/2]},
		"an empty certificate":        {nil, second.Key},
		"key and certificate swapped": {second.Key, second.Cert},
		"an expired certificate":      {expired.Cert, expired.Key},
		"a large file":                {append(second.Cert, make([]byte, 1<<20)...), second.Key},
	} {
		write(pair[0], pair[1])
		hangUp(t, s, kept)
		servicetest.Is(t, shown(t, s, trust), first.Serial, "%s: the certificate", name)
	}
	os.Remove(filepath.Join(dir, "key.pem"))
	hangUp(t, s, kept)
	servicetest.NoError(t, syscall.Mkfifo(filepath.Join(dir, "key.pem"), 0o600))
	hangUp(t, s, kept)
	os.Remove(filepath.Join(dir, "key.pem"))
	if got := shown(t, s, trust); got != first.Serial {
		t.Error("without a key the certificate is another")
	}
	for _, secret := range strings.Fields(string(second.Key)) {
		if len(secret) > 20 && strings.Contains(s.Log.String(), secret) {
			t.Error("a key is in the log")
		}
	}
	second.Write(t, dir)
	hangUp(t, s, "the certificate was read again")
	if got := shown(t, s, trust); got != second.Serial {
		t.Error("after errors a good certificate is not taken over")
	}
}
