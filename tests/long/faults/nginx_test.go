package faults

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"worldevents/tests/servicetest"
)

// nginxFleet is two instances behind nginx, which the operator notifies of what is down.
type nginxFleet struct {
	*fleet
	settings string
	reloads  int
}

func newNginxFleet(t *testing.T, server *servicetest.PostgresServer, env ...string) *nginxFleet {
	t.Helper()
	f := &nginxFleet{fleet: newInstances(t, server, env...)}
	f.Front = servicetest.StartNginx(t, f.programs[0], f.programs[1])
	f.settings = f.read("shipped.conf")
	f.proxyLog = func() string { return f.read("access.log") }
	f.http2 = true // a reload has clients go on elsewhere
	f.waitUp = func() { f.AwaitUp(t) }
	return f
}

func (f *nginxFleet) read(name string) string {
	return string(servicetest.Must(os.ReadFile(filepath.Join(f.Dir, name)))(f.t))
}

// down reloads nginx with an instance marked down, or with none, and waits until its worker of before has ended.
func (f *nginxFleet) down(i int) {
	f.t.Helper()
	settings := f.settings
	if i >= 0 {
		server := "server " + f.programs[i].Getenv("LISTEN_ADDR")
		settings = strings.Replace(settings, server, server+" down", 1)
	}
	servicetest.WriteSecret(f.t, filepath.Join(f.Dir, "shipped.conf"), settings)
	f.reloads++
	f.Proxy.Process.Signal(syscall.SIGHUP)
	servicetest.Eventually(f.t, "the worker of before has ended", func() bool {
		return strings.Count(f.Log.String(), "exited with code 0") == f.reloads
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
	load.losesNothing()
	f.dropsClaims()
	f.redirects()
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
	load.losesNothing()
}
