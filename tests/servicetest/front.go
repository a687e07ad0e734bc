package servicetest

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Background starts a command, which ends with the test, or when end is called. Where the test fails it shows what the command has printed.
func Background(tb testing.TB, command *exec.Cmd) (log *Log, end func()) {
	tb.Helper()
	log = new(Log)
	command.Stdout, command.Stderr = log, log
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	}
	ended := Must(StartCommand(command))(tb)
	end = sync.OnceFunc(func() {
		command.Process.Signal(syscall.SIGTERM) // killed, nginx would leave its workers
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			command.Process.Kill()
			<-ended
		}
	})
	tb.Cleanup(func() {
		end()
		if tb.Failed() {
			text := log.String()
			tb.Logf("%s: …%s", command.Path, text[max(0, len(text)-4000):])
		}
	})
	return log, end
}

// Front is a proxy with its file in deploy/, in front of two instances of the program.
type Front struct {
	URL    string // with TLS
	Plain  string // host:port without TLS
	Status string // host:port of HAProxy's statistics
	Dir    string // has the proxy's files
	Proxy  *exec.Cmd
	Log    *Log
	End    func() // ends the proxy before the test ends
}

// StartHAProxy starts it in front of two instances, which may be the same.
func StartHAProxy(tb testing.TB, one, two *Program) *Front {
	tb.Helper()
	f := newFront(tb)
	pem, settings, certificate := filepath.Join(f.Dir, "pem"), filepath.Join(f.Dir, "haproxy.cfg"), NewCertificate(tb, time.Hour, time.Hour)
	pairs := []string{"bind :80\n", "bind " + f.Plain + "\n", "bind :443 ", "bind " + f.address() + " ", "/etc/haproxy/worldevents.pem", pem}
	for i, p := range []*Program{one, two} {
		documented := fmt.Sprintf("10.0.0.%d:8080", i+1)
		_, port, _ := net.SplitHostPort(p.Getenv("ADMIN_ADDR"))
		pairs = append(pairs, documented+" check port 9090 ", p.Getenv("LISTEN_ADDR")+" check port "+port+" ", documented, p.Getenv("LISTEN_ADDR"))
	}
	WriteSecret(tb, pem, string(certificate.Cert)+string(certificate.Key))
	WriteSecret(tb, settings, ShippedWith(tb, "deploy/haproxy.cfg", pairs...)+"\nfrontend status\n  bind "+f.Status+"\n  stats enable\n  stats uri /\n")
	f.start(tb, "haproxy", "-db", "-f", settings)
	return f
}

// StartNginx starts it in front of two instances, which may be the same. SIGHUP has it read shipped.conf again; access.log has the requests.
func StartNginx(tb testing.TB, one, two *Program) *Front {
	tb.Helper()
	f := newFront(tb)
	NewCertificate(tb, time.Hour, time.Hour).Write(tb, f.Dir)
	WriteSecret(tb, filepath.Join(f.Dir, "shipped.conf"), ShippedWith(tb, "deploy/nginx.conf", "listen 80", "listen "+f.Plain, "listen 443 ", "listen "+f.address()+" ",
		"/var/log/nginx/worldevents.log", "access.log", "/etc/nginx/worldevents.crt", "cert.pem", "/etc/nginx/worldevents.key", "key.pem",
		"10.0.0.1:8080", one.Getenv("LISTEN_ADDR"), "10.0.0.2:8080", two.Getenv("LISTEN_ADDR")))
	WriteSecret(tb, filepath.Join(f.Dir, "nginx.conf"), `
daemon off;
user root;
pid pid;
error_log stderr notice;
worker_rlimit_nofile 20000;
events { worker_connections 9000; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  include shipped.conf;
}
`)
	f.start(tb, "nginx", "-p", f.Dir, "-c", "nginx.conf")
	return f
}

func newFront(tb testing.TB) *Front {
	tb.Helper()
	return &Front{URL: "https://" + FreeAddress(tb), Plain: FreeAddress(tb), Status: FreeAddress(tb), Dir: tb.TempDir()}
}

func (f *Front) address() string { return strings.TrimPrefix(f.URL, "https://") }

func (f *Front) start(tb testing.TB, tool string, args ...string) {
	tb.Helper()
	f.Proxy = exec.Command(Tool(tb, tool), args...)
	f.Log, f.End = Background(tb, f.Proxy)
	f.AwaitUp(tb)
}

// AwaitUp waits until the proxy passes requests on.
func (f *Front) AwaitUp(tb testing.TB) {
	tb.Helper()
	insecure := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	Eventually(tb, "the proxy passes requests on", func() bool { return NewBrowser(f.URL, insecure).Do("GET", SessionPath, "").Status == 400 })
}
