package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A cache in front that was told to keep everything, whatever Cache-Control and Set-Cookie say, gives nobody what is somebody
// else's: what depends on a cookie varies by it (RFC 9110 section 12.5.5).
func TestCacheThatKeepsEverything(t *testing.T) {
	t.Parallel()
	for _, ignored := range []string{"Cache-Control Expires", "Cache-Control Expires Set-Cookie"} {
		t.Run(ignored, func(t *testing.T) {
			t.Parallel()
			p := servicetest.NewProgram(t)
			s := p.ServeReady()
			cookies := p.Issue("alice")
			cache := newCache(t, s.URL, ignored)
			nobody, alice := servicetest.NewBrowser(cache, newTransport(1)), servicetest.NewBrowser(cache, newTransport(1))
			direct := servicetest.NewBrowser(s.URL, newTransport(1))
			for _, path := range []string{"/sessions", "/docs", "/api/auth/session", "/api/event/world", "/api/auth/refresh"} {
				hers := alice.Do("GET", path, "", servicetest.Header("Cookie", cookies))
				if hers.Status != 200 {
					t.Fatalf("%s: %d %s", path, hers.Status, hers.Body)
				}
				kept := alice.Do("GET", path, "", servicetest.Header("Cookie", cookies)).Header.Get("X-Cache") == "HIT"
				if want := hers.Header.Get("Set-Cookie") == "" || strings.Contains(ignored, "Set-Cookie"); kept != want {
					t.Errorf("%s: the cache keeps it: %v", path, kept)
				}
				got, want := nobody.Do("GET", path, ""), direct.Do("GET", path, "")
				if got.Status != want.Status || got.Header.Get("Session-User") != "" || strings.Contains(got.Body, "alice") ||
					hers.Header.Get("Set-Cookie") != "" && got.Header.Get("Set-Cookie") == hers.Header.Get("Set-Cookie") {
					t.Errorf("%s: nobody gets %d %v %.300s, want %d", path, got.Status, got.Header, got.Body, want.Status)
				}
			}
		})
	}
}

// newCache starts nginx as a cache in front of the service, which ignores those headers of responses. X-Cache says where a
// response came from.
func newCache(t *testing.T, service, ignored string) (url string) {
	t.Helper()
	dir, address := t.TempDir(), servicetest.FreeAddress(t)
	err := os.WriteFile(filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, `
daemon off;
user root;
pid pid;
error_log stderr notice;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  proxy_cache_path cache keys_zone=all:1m;
  server {
    listen %s;
    location / {
      proxy_pass %s;
      proxy_set_header Host $http_host;
      proxy_cache all;
      proxy_cache_key $request_uri;
      proxy_cache_valid any 10m;
      proxy_ignore_headers %s;
      add_header X-Cache $upstream_cache_status always;
    }
  }
}
`, address, service, ignored), 0o600)
	servicetest.NoError(t, err)
	command := exec.Command(servicetest.Tool(t, "nginx"), "-p", dir, "-c", "nginx.conf")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	ended := servicetest.Must(servicetest.StartCommand(command))(t)
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM) // killed, it would leave its worker
		<-ended
	})
	url = "http://" + address
	servicetest.Eventually(t, 20*time.Second, "nginx passes requests on", func() bool {
		return servicetest.NewBrowser(url, newTransport(1)).Do("GET", "/api/auth/session", "").Status == 400
	})
	return url
}
