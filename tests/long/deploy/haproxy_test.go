package deploy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// HAProxy waits four seconds for a check. It takes an instance out once that is not ready, and as a backup not before three checks of /livez
// in a row have failed. A connection on which nothing comes ends without a word.
func TestHAProxyChecks(t *testing.T) {
	t.Parallel()
	dir, public := t.TempDir(), servicetest.FreeAddress(t)
	var log *servicetest.Log
	_, port, _ := net.SplitHostPort(servicetest.FreeAddress(t))
	certificate := servicetest.NewCertificate(t, time.Hour, time.Hour)
	write(t, filepath.Join(dir, "pem"), string(certificate.Cert)+string(certificate.Key))
	write(t, filepath.Join(dir, "haproxy.cfg"), servicetest.ShippedWith(t, "deploy/haproxy.cfg",
		"bind :80\n", "bind "+servicetest.FreeAddress(t)+"\n", "bind :443 ", "bind "+public+" ",
		"/etc/haproxy/worldevents.pem", filepath.Join(dir, "pem"), " 10.0.0.", " 127.0.0.", " port 9090 ", " port "+port+" "))

	// Of each path the first check succeeds, since HAProxy begins with the benefit of one. Then it is what the letters say: failed, good, slow.
	answers := map[string]string{"/readyz": "gsf", "/livez": "gffgsssfff"}
	var wait []func()
	for n, name := range []string{"one", "two"} {
		counts := map[string]*atomic.Int64{"/readyz": {}, "/livez": {}}
		server := &http.Server{Addr: fmt.Sprintf("127.0.0.%d:%s", n+1, port), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, is := int(counts[r.URL.Path].Add(1)), answers[r.URL.Path]
			switch is[min(n, len(is))-1] {
			case 's':
				time.Sleep(4 * time.Second)
			case 'f':
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
		go server.Serve(servicetest.Must(net.Listen("tcp", server.Addr))(t))
		t.Cleanup(func() { server.Close() })
		for backend, path := range map[string]string{"worldevents": "/readyz", "alive": "/livez"} {
			down := "Server " + backend + "/" + name + " is DOWN"
			wait = append(wait, func() {
				t.Helper()
				servicetest.Within(t, time.Minute, down, func() bool { return strings.Contains(log.String(), down) })
				if n := int(counts[path].Load()); n < len(answers[path]) {
					t.Errorf("%s after %d checks, want %d", down, n, len(answers[path]))
				}
			})
		}
	}
	log, _ = servicetest.Background(t, exec.Command(servicetest.Tool(t, "haproxy"), "-db", "-f", filepath.Join(dir, "haproxy.cfg")))
	var silent net.Conn
	servicetest.Eventually(t, "HAProxy listens", func() bool {
		var err error
		silent, err = tls.Dial("tcp", public, servicetest.Trusting("localhost", certificate))
		return err == nil
	})
	defer silent.Close()
	silent.SetDeadline(time.Now().Add(time.Minute))
	if said, err := io.ReadAll(silent); err != nil || len(said) > 0 {
		t.Errorf("a connection on which nothing comes: %q %v", said, err)
	}
	for _, wait := range wait {
		wait()
	}
}
