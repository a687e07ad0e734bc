package servicetest

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PostgresServer is a PostgreSQL server of one test, which may kill, pause, restart, copy and promote it.
type PostgresServer struct {
	// Addr is where it listens, host:port.
	Addr string

	*installation
	tb       testing.TB
	settings []string
}

// NewPostgresServer starts a server with an empty database "worldevents" and these settings, as NAME=value.
func NewPostgresServer(tb testing.TB, settings ...string) *PostgresServer {
	tb.Helper()
	template(tb) // skips or fails where there is no PostgreSQL
	bin, err := PostgresBinaries()
	if err != nil {
		Missing(tb, "needs the programs of PostgreSQL: %v", err)
	}
	return NewPostgresServerOf(tb, bin, settings...)
}

// NewPostgresServerOf is NewPostgresServer of the version whose programs are in the folder bin.
func NewPostgresServerOf(tb testing.TB, bin string, settings ...string) *PostgresServer {
	tb.Helper()
	s := newPostgresServer(tb, bin, settings)
	NoError(tb, s.initialize())
	s.Start()
	s.Exec("CREATE DATABASE worldevents")
	return s
}

func newPostgresServer(tb testing.TB, bin string, settings []string) *PostgresServer {
	tb.Helper()
	address := FreeAddress(tb)
	_, port, _ := net.SplitHostPort(address)
	i := Must(newInstallation(bin, "/tmp", port))(tb) // a short folder: the path of a socket has at most 107 bytes
	s := &PostgresServer{Addr: address, installation: i, tb: tb, settings: settings}
	tb.Cleanup(func() {
		s.Kill()
		os.RemoveAll(s.dir)
	})
	return s
}

// Binaries is the folder of the programs of PostgreSQL.
func (s *PostgresServer) Binaries() string { return s.bin }

// URL leads to the database worldevents.
func (s *PostgresServer) URL() string { return postgresURL(s.Addr) }

func postgresURL(hosts string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: hosts, Path: "/worldevents"}
	return u.String()
}

// PostgresURL leads to the database worldevents of whichever of the servers takes writes.
func PostgresURL(servers ...*PostgresServer) string {
	hosts := servers[0].Addr
	for _, s := range servers[1:] {
		hosts += "," + s.Addr
	}
	return postgresURL(hosts) + "?target_session_attrs=read-write"
}

// Database looks into the database worldevents.
func (s *PostgresServer) Database() *Database { return s.DatabaseNamed("worldevents") }

// DatabaseNamed looks into another one.
func (s *PostgresServer) DatabaseNamed(name string) *Database {
	u := strings.TrimSuffix(s.URL(), "worldevents") + name
	return open(s.tb, "postgres", "pgx", u, u)
}

// CopyOf makes a database as d is, which nobody may use meanwhile. It goes with the test.
func (s *PostgresServer) CopyOf(tb testing.TB, d *Database) *Database {
	tb.Helper()
	d.DB.Close()
	s.Exec("CREATE DATABASE copy STRATEGY file_copy TEMPLATE worldevents")
	tb.Cleanup(func() { s.Exec("DROP DATABASE copy WITH (FORCE)") })
	u := strings.TrimSuffix(s.URL(), "worldevents") + "copy"
	return open(tb, "postgres", "pgx", u, u)
}

// Log is what the server has logged.
func (s *PostgresServer) Log() string {
	s.tb.Helper()
	return string(Must(os.ReadFile(filepath.Join(s.dir, "log")))(s.tb))
}

// Exec runs a statement in the database postgres.
func (s *PostgresServer) Exec(statement string) {
	s.tb.Helper()
	if err := s.tryExec(statement); err != nil {
		s.tb.Fatalf("%s: %v", statement, err)
	}
}

func (s *PostgresServer) tryExec(statement string) error {
	db, err := sql.Open("pgx", "postgres://postgres@"+s.Addr+"/postgres?connect_timeout=2")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statement)
	return err
}

// Start starts the server again after Kill, and waits until it responds.
func (s *PostgresServer) Start() {
	s.tb.Helper()
	settings := append([]string{"max_connections=200", "shared_buffers=32MB"}, s.settings...)
	NoError(s.tb, s.start(settings))
	for deadline := time.Now().Add(30 * time.Second); ; {
		select {
		case <-s.ended: // processes of a killed server still hold its memory
			NoError(s.tb, s.start(settings))
		default:
		}
		if err := s.tryExec("SELECT 1"); err == nil {
			return
		} else if time.Now().After(deadline) {
			s.tb.Fatalf("PostgreSQL does not start: %v\n%s", err, s.Log())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Kill ends the server and all its processes as a loss of power would.
func (s *PostgresServer) Kill() {
	if s.process == nil {
		return
	}
	s.freeze()
	for _, pid := range s.children() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.end(syscall.SIGKILL)
}

// Restart stops the server in the middle of what it does, and starts it again.
func (s *PostgresServer) Restart() {
	s.tb.Helper()
	s.end(syscall.SIGINT) // fast: ends sessions
	s.Start()
}

// CrashBackend ends one of the server's processes. The server then ends all others, recovers from its log, and goes on.
func (s *PostgresServer) CrashBackend() {
	s.tb.Helper()
	if children := s.children(); len(children) > 0 {
		syscall.Kill(children[0], syscall.SIGKILL)
	}
}

// Upgrade moves the server by pg_upgrade to the version whose programs are in the folder bin. The new server has the address of the
// old one.
func (s *PostgresServer) Upgrade(bin string) {
	s.tb.Helper()
	s.end(syscall.SIGINT)
	old, from := s.data()+".old", s.bin
	s.bin = bin
	NoError(s.tb, errors.Join(os.Rename(s.data(), old), s.initdb()))
	s.run("pg_checksums", "--disable", "--no-sync", "-D", s.data()) // fails where there are none, as in the old server
	NoError(s.tb, s.run("pg_upgrade", "-U", "postgres", "-b", from, "-B", bin, "-d", old, "-D", s.data(), "--no-sync"))
	s.Start()
}

// Pause stops all processes of the server without closing anything, until Resume.
func (s *PostgresServer) Pause() {
	s.freeze()
	for _, pid := range s.children() {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
}

// freeze stops the first process, and returns once it begins no more children. One that nobody counted would outlive the others
// and hold their memory, which keeps the server from starting again.
func (s *PostgresServer) freeze() {
	for s.process.Signal(syscall.SIGSTOP) == nil {
		if fields := stat(s.process.Pid); len(fields) == 0 || fields[0] != "R" && fields[0] != "S" && fields[0] != "D" {
			return
		}
		runtime.Gosched()
	}
}

// Resume undoes Pause.
func (s *PostgresServer) Resume() {
	for _, pid := range append(s.children(), s.process.Pid) {
		syscall.Kill(pid, syscall.SIGCONT)
	}
}

// children are the processes of the server but for the first, which is their parent.
func (s *PostgresServer) children() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if fields := stat(pid); len(fields) > 1 && fields[1] == strconv.Itoa(s.process.Pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat is what /proc/PID/stat says behind the name of a process: first its state and its parent. Of none it says nothing.
func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

// Standby makes a streaming standby called name of the server, with the server's settings.
func (s *PostgresServer) Standby(name string) *PostgresServer {
	s.tb.Helper()
	other := newPostgresServer(s.tb, s.bin, s.settings)
	NoError(s.tb, other.run("pg_basebackup", "-D", other.data(), "-d", "postgres://postgres@"+s.Addr+"/?application_name="+name,
		"-R", "-X", "stream", "-c", "fast", "--no-sync"))
	other.Start()
	return other
}

// Promote makes a standby take writes.
func (s *PostgresServer) Promote() {
	s.tb.Helper()
	s.Exec("SELECT pg_promote()")
}

// Unprivileged is how programs that refuse to run as root are started when the tests do: as somebody else, who then
// owns dir. They die with us.
func Unprivileged(tb testing.TB, dir string) *syscall.SysProcAttr {
	tb.Helper()
	return Must(unprivileged(dir))(tb)
}
