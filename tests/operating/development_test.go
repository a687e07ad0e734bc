package operating

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
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
	conn.SetDeadline(time.Now().Add(servicetest.Soon))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	response, err := io.ReadAll(conn)
	return string(response), err
}

// startHere starts a command in the network of the calling thread, and waits until a path at an address has this response.
func startHere(t *testing.T, command *exec.Cmd, address, path, want string) {
	t.Helper()
	servicetest.NoError(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	servicetest.Eventually(t, "a response of "+address, func() bool {
		response, _ := requestOn(address, path)
		return strings.Contains(response, want)
	})
}

// Development listens on loopback alone, of both kinds, unless LISTEN_ADDR says otherwise.
func TestDevelopmentListensOnLoopback(t *testing.T) {
	const ipv4, ipv6, public = "127.0.0.1:8080", "[::1]:8080", "192.0.2.1:8080"
	for _, test := range []struct {
		name string
		env  []string
		ipv6 bool
		on   []string
	}{
		{"development", []string{"APP_ENV=development"}, true, []string{ipv4, ipv6}},
		{"development without IPv6", []string{"APP_ENV=development"}, false, []string{ipv4}},
		{"development, empty is unset", []string{"APP_ENV=development", "LISTEN_ADDR="}, true, []string{ipv4, ipv6}},
		{"development on all", []string{"APP_ENV=development", "LISTEN_ADDR=:8080"}, true, []string{ipv4, ipv6, public}},
		{"development on localhost", []string{"APP_ENV=development", "LISTEN_ADDR=localhost:8080"}, true, []string{ipv4, ipv6}},
		{"development on localhost without IPv6", []string{"APP_ENV=development", "LISTEN_ADDR=localhost:8080"}, false, []string{ipv4}},
		{"production on localhost", []string{"APP_ENV=production", "BASE_URL=https://example.org", "LISTEN_ADDR=localhost:8080"}, true, []string{ipv4, ipv6}},
		{"development on one", []string{"APP_ENV=development", "LISTEN_ADDR=127.0.0.1:8080"}, true, []string{ipv4}},
		{"production", []string{"APP_ENV=production", "BASE_URL=https://example.org"}, true, []string{ipv4, ipv6, public}},
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
			log, command := new(servicetest.Log), p.Command("serve")
			command.Stdout, command.Stderr = log, log
			startHere(t, command, ipv4, servicetest.SessionPath, servicetest.SessionNoToken)
			for _, address := range []string{ipv4, ipv6, public} {
				response, _ := requestOn(address, servicetest.SessionPath)
				responds := strings.Contains(response, servicetest.SessionNoToken)
				servicetest.Is(t, responds, slices.Contains(test.on, address), "%s responds %q: %s", address, response, log)
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
		{"a port", fmt.Sprintf("127.0.0.1:%d", free), "", "http://localhost:PORT"},
		{"any port", "127.0.0.1:0", "", "http://localhost:PORT"},
		{"any port of all addresses", ":0", "", "http://localhost:PORT"},
		{"set", "127.0.0.1:0", "BASE_URL=http://app.localhost:3000/base", "http://app.localhost:3000/base"},
		{"production", "127.0.0.1:0", "APP_ENV=production", "http://localhost:8080"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := servicetest.NewProgram(t, "LISTEN_ADDR="+test.listen, "LOG_FORMAT=json", test.env)
			s := p.ServeReady()
			found := regexp.MustCompile(`"address":"[^"]*:([1-9]\d*)"`).FindStringSubmatch(s.AwaitMessage("serving"))
			if found == nil {
				t.Fatal(s.Log)
			}
			s.URL = "http://127.0.0.1:" + found[1]
			want := strings.Replace(test.want, "PORT", found[1], 1)
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
	post := func(host string) *servicetest.Response {
		asPage := func(r *http.Request) {
			r.Host = host
			r.Header.Set("Origin", "https://"+host)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		return s.Client().Post("/sign-in", "username=alice", servicetest.AsForm, asPage)
	}
	get := func(path, host string) *servicetest.Response {
		return s.Client().Get(path, func(r *http.Request) { r.Host = host })
	}
	for _, host := range []string{
		"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", "localhost.evil",
		"a.public.example", "public.example.evil", "worldevents", "1.2.3", "127.0.0.1x", "evil.example:localhost",
	} {
		post(host).IsError(403, "unknown_host").SetsNoCookie()
		get("/sign-in", host).IsError(403, "unknown_host")
	}
	servicetest.Is(t, s.Database.Count("sessions"), 0, "sessions")
	for _, host := range []string{
		"localhost", "LOCALHOST:8080", "app.localhost", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:8080", "192.168.1.5:8080", "[fe80::1]",
		"public.example", "PUBLIC.EXAMPLE:1",
	} {
		post(host).Is(303, "").Cookie("token")
		get("/sign-in", host).Has(200)
	}
	// The API asks for no host: in production a proxy decides which it is.
	get(servicetest.SessionPath, "evil.example").Is(400, servicetest.SessionNoToken)
}
