package hostile

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// service is a service with what stands in front of it. It serves many cells.
type service struct {
	t       *testing.T
	path    string
	db      *servicetest.Database
	process *servicetest.Process
	proxy   func() // ends it, nil for none
	url     string
	people  []*person
	event   string // that attackers join and leave
	tag     string // of the list of sixty events
	kept    int    // connections that a proxy keeps to the service
	least   usage  // the least that there was without an attacker
}

// start starts a service over a new database. Its worlds are "sixty", of 60 events, "steady", of 400 kB, and "large", of 7 MB.
func start(t *testing.T, path, database string, env ...string) *service {
	t.Helper()
	s := &service{t: t, path: path}
	if s.db = servicetest.SQLite(t); database == "postgres" {
		s.db = servicetest.Postgres(t)
	}
	holder := &servicetest.Service{Database: s.db}
	servicetest.AddEvents(holder, "sixty", 8001, 60, 2031, strings.Repeat("x", 100))
	servicetest.AddEvents(holder, "steady", 8002, 80, 2031, strings.Repeat("x", 5000))
	servicetest.AddEvents(holder, "large", 8003, 1500, 2031, strings.Repeat("x", 5000))
	s.run(env...)
	return s
}

// run starts the program over the database, and the proxy.
func (s *service) run(env ...string) {
	s.t.Helper()
	env = append([]string{"DATABASE_URL=" + s.db.URL, "LOG_LEVEL=error", "TRUSTED_PROXIES=127.0.0.0/8", "SESSIONS_PER_USER=1"}, env...)
	if s.path == tlsPath {
		env = append(env, "TLS=files")
	}
	program := servicetest.NewProgram(s.t, env...)
	certificate := servicetest.NewCertificate(s.t, time.Hour, time.Hour)
	certificate.Write(s.t, filepath.Join(program.Dir, "tls"))
	s.process = program.ServeReady()
	s.url = s.process.URL
	switch s.path {
	case haproxy:
		s.startHAProxy(program, certificate)
	case nginx:
		s.startNginx(program, certificate)
	}
	s.people, s.least = nil, usage{}
	for _, name := range []string{"honest", "decent"} {
		p, err := newPerson(name, s.url)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(p.leave)
		s.people = append(s.people, p)
	}
	alice := s.people[0].alice
	if s.event = alice.Do("POST", "/api/event/attacked", create).Header.Get("Event-Id"); s.event == "" {
		s.t.Fatal("no event to attack")
	}
	if s.tag = alice.Do("GET", "/api/event/sixty", "").Header.Get("ETag"); s.tag == "" {
		s.t.Fatal("no list to wait for")
	}
}

// kill ends the service and its proxy.
func (s *service) kill() {
	for _, p := range s.people {
		p.leave()
	}
	if s.proxy != nil {
		s.proxy()
	}
	s.process.Signal(syscall.SIGKILL)
	s.process.Wait(20 * time.Second)
}

// address is host:port of what clients connect to.
func (s *service) address() string { return s.url[strings.Index(s.url, "//")+2:] }

func (s *service) secure() bool { return strings.HasPrefix(s.url, "https:") }

// shipped returns a file of deploy/ whose two instances are this one, changed by pairs of old and new.
func (s *service) shipped(name string, program *servicetest.Program, replace ...string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(servicetest.Root(s.t), "deploy", name))
	if err != nil {
		s.t.Fatal(err)
	}
	_, adminPort, _ := net.SplitHostPort(program.Getenv("ADMIN_ADDR"))
	replace = append(replace, "10.0.0.1:8080", program.Getenv("LISTEN_ADDR"), "10.0.0.2:8080", program.Getenv("LISTEN_ADDR"))
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			s.t.Fatalf("no %s in %s", replace[i], name)
		}
	}
	return strings.NewReplacer(append(replace, " port 9090 ", " port "+adminPort+" ")...).Replace(string(text))
}

func (s *service) startHAProxy(program *servicetest.Program, certificate servicetest.Certificate) {
	s.t.Helper()
	tool, dir, public := servicetest.Tool(s.t, "haproxy"), s.t.TempDir(), servicetest.FreeAddress(s.t)
	settings := s.shipped("haproxy.cfg", program, "bind :80\n", "bind "+servicetest.FreeAddress(s.t)+"\n",
		"bind :443 ", "bind "+public+" ", "/etc/haproxy/worldevents.pem", filepath.Join(dir, "pem"))
	s.write(dir, "pem", string(certificate.Cert)+string(certificate.Key))
	s.write(dir, "haproxy.cfg", settings)
	s.kept = heldConns // HAProxy keeps what it has opened, and closes half of it every five seconds
	s.startProxy(public, tool, "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
}

func (s *service) startNginx(program *servicetest.Program, certificate servicetest.Certificate) {
	s.t.Helper()
	tool, dir, public := servicetest.Tool(s.t, "nginx"), s.t.TempDir(), servicetest.FreeAddress(s.t)
	settings := s.shipped("nginx.conf", program, "listen 80", "listen "+servicetest.FreeAddress(s.t), "/var/log/nginx/worldevents.log worldevents", "off", "listen 443 ", "listen "+public+" ",
		"/etc/nginx/worldevents.crt", "cert.pem", "/etc/nginx/worldevents.key", "key.pem")
	certificate.Write(s.t, dir)
	s.write(dir, "shipped.conf", settings)
	s.write(dir, "nginx.conf", `
daemon off;
master_process off;
user root;
pid pid;
error_log stderr crit;
worker_rlimit_nofile 20000;
events { worker_connections 9000; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  include shipped.conf;
}
`)
	s.kept = 64 // keepalive
	s.startProxy(public, tool, "-p", dir, "-c", "nginx.conf")
}

func (s *service) write(dir, name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// startProxy starts a proxy and waits until it passes requests on.
func (s *service) startProxy(public, tool string, args ...string) {
	s.t.Helper()
	command, log := exec.Command(tool, args...), new(servicetest.Log)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = log, log
	ended, err := servicetest.StartCommand(command)
	if err != nil {
		s.t.Fatal(err)
	}
	s.proxy = func() {
		command.Process.Kill()
		<-ended
	}
	s.t.Cleanup(s.proxy)
	s.url = "https://" + public
	anew := transport(false)
	servicetest.Eventually(s.t, 20*time.Second, tool+" passes requests on", func() bool {
		return servicetest.NewBrowser(s.url, anew).Do("GET", "/api/auth/session", "").Status == 400
	})
}

// usage is what the service holds.
type usage struct {
	held              map[string]float64 // the gauges of what requests hold
	goroutines, files int
	heap              int // bytes that are held, at least, where it was asked for
}

var (
	heldSeries = regexp.MustCompile(`(?m)^(worldevents_held\{[^}]*\}|worldevents_held|worldevents_list_watches|go_goroutines) (\S+)$`)
	heapLines  = regexp.MustCompile(`(?m)^# (TotalAlloc|HeapAlloc) = (\d+)$`)
)

// use reads what the service holds.
func (s *service) use() (u usage, err error) {
	status, text := s.process.AdminBody("/metrics")
	if status != 200 {
		return u, fmt.Errorf("/metrics: %d %.200s", status, text)
	}
	u.held = make(map[string]float64)
	for _, match := range heldSeries.FindAllStringSubmatch(text, -1) {
		value, _ := strconv.ParseFloat(match[2], 64)
		if match[1] == "go_goroutines" {
			u.goroutines = int(value)
		} else {
			u.held[strings.TrimPrefix(match[1], "worldevents_")] = value
		}
	}
	u.files = s.process.Files()
	return u, nil
}

// heldHeap collects garbage and returns how many bytes are left, but for as many as were allocated during the collection: responses
// that are being written make garbage all the time. A collection before leaves what pools keep for reuse (sync.Pool), which nobody
// holds.
func (s *service) heldHeap() (int, error) {
	s.process.Admin("/debug/pprof/heap?gc=1")
	_, begun, err := s.heap("debug=1")
	if err != nil {
		return 0, err
	}
	left, allocated, err := s.heap("gc=1&debug=1")
	return left - (allocated - begun), err
}

// heap returns how many bytes of the heap are in use, and how many were ever allocated.
func (s *service) heap(query string) (inUse, allocated int, err error) {
	status, text := s.process.AdminBody("/debug/pprof/heap?" + query)
	lines := make(map[string]int)
	for _, match := range heapLines.FindAllStringSubmatch(text, -1) {
		lines[match[1]], _ = strconv.Atoi(match[2])
	}
	if status != 200 || len(lines) != 2 {
		return 0, 0, fmt.Errorf("heap: %d %.200s", status, text)
	}
	return lines["HeapAlloc"], lines["TotalAlloc"], nil
}

// useWithHeap is use with the heap.
func (s *service) useWithHeap() (u usage, err error) {
	if u, err = s.use(); err == nil {
		u.heap, err = s.heldHeap()
	}
	return u, err
}
