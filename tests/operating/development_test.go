package operating

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// inOwnNetwork gives the test, and what it starts, a network in which all ports are free. It ends with the test.
func inOwnNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and takes its network along
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		servicetest.Missing(t, "needs a network of its own: %v", err)
	}
	for _, args := range []string{"link set lo up", "address add 192.0.2.1/32 dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			servicetest.Missing(t, "ip %s: %v: %s", args, err, out)
		}
	}
}

// requestOn sends a request for path to address over a connection of its own, and returns the response.
func requestOn(address, path string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	response, err := io.ReadAll(conn)
	return string(response), err
}

// startIn starts serve in the network of the calling thread and waits until address has a response.
func startIn(t *testing.T, p *servicetest.Program, address string) *servicetest.Log {
	t.Helper()
	log := new(servicetest.Log)
	command := p.Command("serve")
	command.Stdout, command.Stderr = log, log
	servicetest.NoError(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	servicetest.Eventually(t, 20*time.Second, "serve responds on "+address, func() bool {
		response, err := requestOn(address, "/api/auth/session")
		return err == nil && strings.Contains(response, servicetest.SessionNoToken)
	})
	return log
}

// Development listens on loopback alone, of both kinds, unless LISTEN_ADDR says otherwise.
func TestDevelopmentListensOnLoopback(t *testing.T) {
	const ipv4, ipv6, public = "127.0.0.1:8080", "[::1]:8080", "192.0.2.1:8080"
	for _, test := range []struct {
		name    string
		env     []string
		ipv6    bool
		on, off []string
	}{
		{"development", []string{"APP_ENV=development"}, true, []string{ipv4, ipv6}, []string{public}},
		{"development without IPv6", []string{"APP_ENV=development"}, false, []string{ipv4}, []string{public}},
		{"development, empty is unset", []string{"APP_ENV=development", "LISTEN_ADDR="}, true, []string{ipv4, ipv6}, []string{public}},
		{"development on all", []string{"APP_ENV=development", "LISTEN_ADDR=:8080"}, true, []string{ipv4, ipv6, public}, nil},
		{"development on localhost", []string{"APP_ENV=development", "LISTEN_ADDR=localhost:8080"}, true, []string{ipv4, ipv6}, []string{public}},
		{"development on localhost without IPv6", []string{"APP_ENV=development", "LISTEN_ADDR=localhost:8080"}, false, []string{ipv4}, []string{public}},
		{"production on localhost", []string{"APP_ENV=production", "BASE_URL=https://example.org", "LISTEN_ADDR=localhost:8080"}, true, []string{ipv4, ipv6}, []string{public}},
		{"development on one", []string{"APP_ENV=development", "LISTEN_ADDR=127.0.0.1:8080"}, true, []string{ipv4}, []string{ipv6, public}},
		{"production", []string{"APP_ENV=production", "BASE_URL=https://example.org"}, true, []string{ipv4, ipv6, public}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := servicetest.NewProgram(t)
			p.Env = append([]string{"JWT_SECRET=" + string(servicetest.Key)}, test.env...)
			inOwnNetwork(t)
			if !test.ipv6 {
				if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0); err != nil {
					servicetest.Missing(t, "%v", err)
				}
			}
			log := startIn(t, p, ipv4)
			for _, address := range test.on {
				if response, err := requestOn(address, "/api/auth/session"); !strings.Contains(response, servicetest.SessionNoToken) {
					t.Errorf("%s: %v %q: %s", address, err, response, log)
				}
			}
			for _, address := range test.off {
				if response, err := requestOn(address, "/api/auth/session"); err == nil {
					t.Errorf("%s responds: %q", address, response)
				}
			}
		})
	}
	// Half of it is not enough: another program on the other loopback would be taken for this one.
	t.Run("one is in use", func(t *testing.T) {
		p := servicetest.NewProgram(t)
		p.Env = []string{"JWT_SECRET=" + string(servicetest.Key), "APP_ENV=development"}
		inOwnNetwork(t)
		l, err := net.Listen("tcp", ipv6)
		if err != nil {
			servicetest.Missing(t, "%v", err)
		}
		defer l.Close()
		// Run would start it on another thread, and so in the network of everybody.
		stderr, err := p.Command("serve").CombinedOutput()
		if err == nil || !servicetest.OneLine(string(stderr), ` error="LISTEN_ADDR: `) {
			t.Errorf("%v %q", err, stderr)
		}
	})
}

// In development the public address has the port that the service listens on.
func TestDevelopmentBaseURL(t *testing.T) {
	t.Parallel()
	free := servicetest.FreePort(t)
	for _, test := range []struct{ name, listen, env, want string }{
		{"a port", fmt.Sprintf("127.0.0.1:%d", free), "", fmt.Sprintf("http://localhost:%d", free)},
		{"any port", "127.0.0.1:0", "", ""},
		{"any port of all addresses", ":0", "", ""},
		{"set", "127.0.0.1:0", "BASE_URL=http://app.localhost:3000/base", "http://app.localhost:3000/base"},
		{"production", "127.0.0.1:0", "APP_ENV=production", "http://localhost:8080"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := servicetest.NewProgram(t, "LISTEN_ADDR="+test.listen, "LOG_FORMAT=json", test.env)
			s := p.ServeReady()
			_, log, _ := strings.Cut(s.AwaitMessage("serving"), `"address":"`)
			address, _, _ := strings.Cut(log, `"`)
			_, port, err := net.SplitHostPort(address)
			if err != nil || port == "0" {
				t.Fatalf("address %q: %s", address, s.Log)
			}
			s.URL = "http://127.0.0.1:" + port
			want := test.want
			if want == "" {
				want = "http://localhost:" + port
			}
			servicetest.Contains(t, s.Is(200, "GET", "/openapi.json", "", ""), `"url": "`+want+`"`)
			p.MustRun("user", "add", "alice")
			cookies := p.Issue("alice")
			for range 2 {
				s.Do("POST", servicetest.Plaza, servicetest.EventBody, cookies)
			}
			servicetest.Contains(t, s.Ask("GET", servicetest.Plaza+"?limit=1", "", cookies).Header.Get("Link"), "<"+want+"/api/event/plaza?")
		})
	}
}

// A page of another name that leads here, as after DNS rebinding, signs nobody in.
func TestSignInHosts(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.BaseURL, _ = url.Parse("https://Public.example:8443/base") })
	for host, status := range map[string]int{
		"localhost": 303, "LOCALHOST:8080": 303, "app.localhost": 303, "127.0.0.1": 303, "127.9.9.9:80": 303, "[::1]": 303, "[::1]:8080": 303,
		"192.168.1.5:8080": 303, "[fe80::1]": 303, "public.example": 303, "PUBLIC.EXAMPLE:1": 303,
		"evil.example": 403, "evil.example:8080": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "notlocalhost": 403,
		"localhost.evil": 403, "a.public.example": 403, "public.example.evil": 403, "worldevents": 403, "1.2.3": 403, "127.0.0.1x": 403, "evil.example:localhost": 403,
	} {
		s.Run(t, host, func(t *testing.T) {
			before := s.Database.Count("sessions")
			post := s.Raw("POST /sign-in HTTP/1.1\r\nHost: " + host + "\r\nOrigin: https://" + host + "\r\nSec-Fetch-Site: same-origin\r\n" +
				"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 14\r\nConnection: close\r\n\r\nusername=alice")
			get := s.Raw("GET /sign-in HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
			signedIn := status == 303
			if !strings.HasPrefix(post, fmt.Sprintf("HTTP/1.1 %d ", status)) || strings.Contains(post, "\r\nSet-Cookie: ") != signedIn {
				t.Errorf("POST: %.300q", post)
			}
			servicetest.Is(t, strings.HasPrefix(get, "HTTP/1.1 200 "), signedIn, "GET: %.300q", get)
			for _, response := range []string{post, get} {
				if !signedIn && (!strings.HasPrefix(response, "HTTP/1.1 403 ") || !strings.Contains(response, `"code":"unknown_host"`)) {
					t.Errorf("not refused: %.300q", response)
				}
			}
			if n := s.Database.Count("sessions") - before; n != 0 && !signedIn {
				t.Errorf("%d sessions were made", n)
			}
		})
	}
	// The API asks for no host: in production a proxy decides which it is.
	if response := s.Raw("GET /api/auth/session HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(response, servicetest.SessionNoToken) {
		t.Errorf("%q", response)
	}
}
