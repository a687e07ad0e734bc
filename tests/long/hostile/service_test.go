package hostile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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
	front   *servicetest.Front // nil for none
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
	servicetest.NewCertificate(s.t, time.Hour, time.Hour).Write(s.t, filepath.Join(program.Dir, "tls"))
	s.process = program.ServeReady()
	s.url = s.process.URL
	switch s.path {
	case haproxy:
		s.front = servicetest.StartHAProxy(s.t, program, program)
		s.kept = heldConns // HAProxy keeps what it has opened, and closes half of it every five seconds
	case nginx:
		s.front = servicetest.StartNginx(s.t, program, program)
		s.kept = 64 // keepalive
	}
	if s.front != nil {
		s.url = s.front.URL
	}
	s.people, s.least = nil, usage{}
	for _, name := range []string{"honest", "decent"} {
		s.people = append(s.people, newPerson(s.t, name, s.url))
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
	if s.front != nil {
		s.front.End()
	}
	s.process.Kill()
}

// address is host:port of what clients connect to.
func (s *service) address() string { return s.url[strings.Index(s.url, "//")+2:] }

func (s *service) secure() bool { return strings.HasPrefix(s.url, "https:") }

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
