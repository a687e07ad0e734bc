package faults

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// nginxFleet is two instances behind nginx, which the operator tells what is down.
type nginxFleet struct {
	*fleet
	dir      string
	settings string
	nginx    *os.Process
	reloads  int
}

func newNginxFleet(t *testing.T, server *servicetest.PostgresServer, env ...string) *nginxFleet {
	t.Helper()
	nginx := servicetest.Tool(t, "nginx")
	f := &nginxFleet{fleet: newInstances(t, server, env...), dir: t.TempDir()}
	public := servicetest.FreeAddress(t)
	f.url, f.plain = "https://"+public, servicetest.FreeAddress(t)
	f.proxyLog = func() string {
		text, _ := os.ReadFile(filepath.Join(f.dir, "access.log"))
		return string(text)
	}
	f.settings = f.shipped("nginx.conf", "listen 80", "listen "+f.plain, "/var/log/nginx/worldevents.log", "access.log", "listen 443 ", "listen "+public+" ",
		"/etc/nginx/worldevents.crt", "cert.pem", "/etc/nginx/worldevents.key", "key.pem")
	servicetest.NewCertificate(t, time.Hour, time.Hour).Write(t, f.dir)
	f.write("shipped.conf", f.settings)
	f.write("nginx.conf", `
daemon off;
user root;
pid pid;
error_log stderr notice;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  include shipped.conf;
}
`)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("nginx:\n%s", f.log)
		}
	})
	f.nginx = f.startProxy(nginx, "-p", f.dir, "-c", "nginx.conf")
	t.Cleanup(func() { // killed, it would leave its worker
		f.nginx.Signal(syscall.SIGTERM)
		servicetest.Eventually(t, 20*time.Second, "nginx ends", func() bool { return f.get("/").Status == 0 })
	})
	f.http2 = true // a reload tells clients to go on elsewhere
	f.waitUp = func() {
		t.Helper()
		servicetest.Eventually(t, 20*time.Second, "nginx passes requests on", func() bool { return f.get("/api/auth/session").Status == 400 })
	}
	f.waitUp()
	return f
}

// get sends a request of somebody who is not signed in.
func (f *nginxFleet) get(path string) response {
	transport := newTransport(1)
	transport.TLSClientConfig = insecure()
	defer transport.CloseIdleConnections()
	return servicetest.NewBrowser(f.url, transport).Do("GET", path, "")
}

func (f *nginxFleet) write(name, text string) {
	f.t.Helper()
	servicetest.NoError(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

// down reloads nginx with an instance marked down, or with none, and waits until its worker of before has ended.
func (f *nginxFleet) down(i int) {
	f.t.Helper()
	settings := f.settings
	if i >= 0 {
		server := "server " + f.programs[i].Getenv("LISTEN_ADDR")
		settings = strings.Replace(settings, server, server+" down", 1)
	}
	f.write("shipped.conf", settings)
	f.reloads++
	f.nginx.Signal(syscall.SIGHUP)
	servicetest.Eventually(f.t, 30*time.Second, "the worker of before has ended", func() bool {
		return strings.Count(f.log.String(), "exited with code 0") == f.reloads
	})
}

// Two instances behind nginx are replaced one after the other under load, each marked down before, and no request fails. One
// that dies without being marked takes no request with it that it had not got.
func TestRollingRestartBehindNginx(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	f := newNginxFleet(t, server, "SHUTDOWN_TIMEOUT=1s")
	load := f.load(20)
	for i := range f.programs {
		f.down(i)
		f.replace(i, f.programs[i])
		f.down(-1)
		load.goOn(200)
	}
	f.down(0)
	f.processes[0].Kill()
	f.down(-1) // now a server that refuses connections
	load.goOn(400)
	f.start(0, f.programs[0])
	load.goOn(200)
	load.finish()
	f.dropsClaims()
	f.redirects()
	for _, res := range load.failed {
		t.Errorf("lost: %v", res)
	}
	t.Logf("%d requests, %d lost", load.sent.Load(), len(load.failed))
}

// A reload of nginx closes the connections that clients of HTTP/1.1 keep, also when a request is on its way. With a key that makes
// creates safe to repeat their libraries do so, and none is lost.
func TestReloadOfNginxOverHTTP1(t *testing.T) {
	t.Parallel()
	f := newNginxFleet(t, servicetest.NewPostgresServer(t))
	f.http2, f.keys = false, true
	load := f.load(20)
	for range 20 {
		f.down(0)
		load.goOn(100)
		f.down(-1)
		load.goOn(100)
	}
	load.finish()
	for _, res := range load.failed {
		t.Errorf("lost: %v", res)
	}
	t.Logf("%d requests, %d lost", load.sent.Load(), len(load.failed))
}
