package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"worldevents/tests/servicetest"
)

const (
	// poolSize is the number of database connections of each server.
	poolSize = 16
	// connections is the number of connections of the load generator, unless a row says otherwise.
	connections = 16
)

var (
	jwtKey = []byte("0123456789abcdefghijklmnopqrstuvwxyz-bench")
	keyID  = func() string {
		sum := sha256.Sum256(jwtKey)
		return hex.EncodeToString(sum[:8])
	}()
)

// env is everything that a run starts, and ends.
type env struct {
	dir      string
	binary   string // the service
	postgres *url.URL
	// postmaster is the process of which all of PostgreSQL's others are children.
	postmaster int
	stops      []func()
}

func newEnv(binary string) (*env, error) {
	s := &env{binary: binary}
	var err error
	if s.dir, err = os.MkdirTemp("", "worldevents-bench"); err != nil {
		return s, err
	}
	s.stops = append(s.stops, func() { os.RemoveAll(s.dir) })
	if s.binary == "" {
		s.binary = filepath.Join(s.dir, "worldevents")
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", s.binary, "worldevents")
		if out, err := build.CombinedOutput(); err != nil {
			return s, fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	// Durable, as installed. Autovacuum and checkpoints would come at any moment: they are
	// asked for between the rows instead.
	var stop func()
	if s.postgres, stop, err = servicetest.StartPostgres("max_connections=400", "shared_buffers=1GB", "autovacuum=off", "checkpoint_timeout=1h", "max_wal_size=16GB"); err != nil {
		return s, err
	}
	s.stops = append(s.stops, stop)
	for range 100 {
		if s.postmaster, err = s.findPostmaster(); err == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return s, err
}

func (s *env) close() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

func (s *env) url(database string) string {
	u := *s.postgres
	u.Path = "/" + database
	return u.String()
}

// exec runs statements, each in a transaction of its own.
func (s *env) exec(database string, statements ...string) error {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, s.url(database))
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for _, statement := range statements {
		if _, err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (s *env) ask(database, query string) (text string, err error) {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, s.url(database))
	if err != nil {
		return "", err
	}
	defer db.Close(ctx)
	return text, db.QueryRow(ctx, query).Scan(&text)
}

// server is a process under measurement.
type server struct {
	name, addr string
	admin      string // of the service
	command    *exec.Cmd
}

// build is a binary of the service, and settings besides the usual ones.
type build struct {
	name, binary string
	settings     []string
}

// reads is a setting with which a list is read each time it is asked for.
const reads = "LIST_CACHE=0"

// service starts the real program in production settings, and others beside them.
func (s *env) service(databaseURL string, settings ...string) (*server, error) {
	return s.program(build{"service", s.binary, settings}, databaseURL)
}

// program is service, of another build.
func (s *env) program(of build, databaseURL string) (*server, error) {
	addr, admin := freeAddress(), freeAddress()
	binary, err := filepath.Abs(of.binary)
	if err != nil {
		return nil, err
	}
	command := exec.Command(binary, "serve")
	command.Dir = s.dir
	command.Env = []string{
		"WRITE_RATE=0", // the users of the bench write more than people do
		// As deploy/ has them.
		"GOMEMLIMIT=420MiB", "GODEBUG=adaptivestackstart=0",
		"APP_ENV=production", "BASE_URL=https://api.example.org", "DATABASE_URL=" + databaseURL, "JWT_SECRET=" + string(jwtKey),
		"DB_MAX_CONNS=" + strconv.Itoa(poolSize), "LISTEN_ADDR=" + addr,
		"ADMIN_ADDR=" + admin,
	}
	command.Env = append(append(command.Env, of.settings...), os.Environ()...)
	server, err := s.start(of.name, addr, command)
	if err != nil {
		return nil, err
	}
	server.admin = admin
	return server, await(func() bool {
		res, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == 200
	})
}

// freeAddress is reserved until the bench ends.
func freeAddress() string {
	port, _, err := servicetest.ReservePort()
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// other starts this program as one of the other servers.
func (s *env) other(name, databaseURL string) (*server, error) {
	addr := freeAddress()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.start(name, addr, exec.Command(program, "-serve", name, "-addr", addr, "-database", databaseURL))
}

// start runs a server whose log nobody reads.
func (s *env) start(name, addr string, command *exec.Cmd) (*server, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, err
	}
	server := &server{name: name, addr: addr, command: command}
	s.stops = append(s.stops, server.stop)
	return server, await(func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// cpu is the processor time that the process has had.
func (s *server) cpu() time.Duration {
	if s == nil {
		return 0
	}
	return cpuOf(s.command.Process.Pid)
}

// resetPeak begins to look for the largest memory of the process, and returns its memory now.
func (s *server) resetPeak() (bytes int64, err error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.command.Process.Pid), []byte("5"), 0); err != nil {
		return 0, err
	}
	return s.status("VmRSS")
}

// peak is the largest memory since resetPeak.
func (s *server) peak() (bytes int64, err error) { return s.status("VmHWM") }

// held is the heap in bytes that is left after a collection, with the stacks.
func (s *server) held() (bytes float64, err error) {
	res, err := http.Get("http://" + s.admin + "/debug/pprof/heap?gc=1")
	if err != nil {
		return 0, err
	}
	res.Body.Close()
	heap, err := s.metric("go_memstats_heap_alloc_bytes")
	if err != nil {
		return 0, err
	}
	stacks, err := s.metric("go_memstats_stack_inuse_bytes")
	return heap + stacks, err
}

func (s *server) status(name string) (bytes int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("no %s", name)
}

func (s *server) stop() {
	s.command.Process.Kill()
	s.command.Wait()
}

func await(ok func() bool) error {
	for range 1000 {
		if ok() {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("not up after 20 s")
}

// serve is the life of one of the other servers.
func serve(name, addr, databaseURL string) error {
	var handler http.Handler
	var err error
	switch name {
	case "reference":
		handler, err = newReference(databaseURL)
	case "bare":
		handler = newBare()
	}
	if err != nil {
		return err
	}
	return http.ListenAndServe(addr, handler)
}
