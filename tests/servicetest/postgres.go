package servicetest

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Postgres makes a migrated database: on the server of TEST_DATABASE_URL, else on a throwaway server that all tests of
// the process share. Where there is neither the test is skipped, or fails when CI=true or TEST_POSTGRES_BIN is set. With
// -short it is always skipped.
func Postgres(tb testing.TB) *Database {
	tb.Helper()
	return createDatabase(tb, " STRATEGY file_copy TEMPLATE "+template(tb)) // without fsync this costs half of wal_log
}

// EmptyPostgres is Postgres without tables.
func EmptyPostgres(tb testing.TB) *Database {
	tb.Helper()
	template(tb)
	return createDatabase(tb, "")
}

// PostgresWith is EmptyPostgres made with these options of CREATE DATABASE.
func PostgresWith(tb testing.TB, options string) *Database {
	tb.Helper()
	template(tb)
	return createDatabase(tb, options)
}

// cluster is the PostgreSQL server of this process.
var cluster struct {
	once     sync.Once
	err      error
	url      *url.URL
	admin    *sql.DB
	template string
	stop     func()
	made     atomic.Int64
}

// template is the name of a migrated database on the server, which the first call starts.
func template(tb testing.TB) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short leaves PostgreSQL out")
	}
	cluster.once.Do(func() { cluster.err = startCluster() })
	if cluster.err != nil && (os.Getenv("CI") == "true" || os.Getenv("TEST_POSTGRES_BIN") != "") {
		tb.Fatalf("no PostgreSQL: %v", cluster.err)
	}
	if cluster.err != nil {
		skipped.Do(func() { fmt.Fprintf(os.Stderr, "\n!!! TESTS ON POSTGRESQL ARE SKIPPED: %v\n\n", cluster.err) })
		tb.Skip("no PostgreSQL")
	}
	return cluster.template
}

var skipped sync.Once

func createDatabase(tb testing.TB, options string) *Database {
	tb.Helper()
	name := fmt.Sprintf("worldevents_%d_%d", os.Getpid(), cluster.made.Add(1))
	Must(cluster.admin.Exec("CREATE DATABASE " + name + options))(tb)
	tb.Cleanup(func() { cluster.admin.Exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)") })
	u := *cluster.url
	u.Path = "/" + name
	return open(tb, "postgres", "pgx", u.String(), u.String())
}

func startCluster() (err error) {
	if given := os.Getenv("TEST_DATABASE_URL"); given != "" {
		cluster.url, err = url.Parse(given)
	} else {
		// What it keeps need not survive a crash.
		cluster.url, cluster.stop, err = StartPostgres("max_connections=500", "fsync=off", "synchronous_commit=off",
			"full_page_writes=off", "autovacuum=off", "shared_buffers=64MB")
	}
	if err != nil {
		return err
	}
	if cluster.admin, err = sql.Open("pgx", cluster.url.String()); err != nil {
		return err
	}
	cluster.admin.SetMaxOpenConns(2)
	if err := poll(20*time.Second, cluster.admin.Ping); err != nil {
		return err
	}
	cluster.template = fmt.Sprintf("worldevents_%d_template", os.Getpid())
	if _, err := cluster.admin.Exec("CREATE DATABASE " + cluster.template); err != nil {
		return err
	}
	u := *cluster.url
	u.Path = "/" + cluster.template
	return migrate(u.String())
}

func stopCluster() {
	if cluster.admin != nil {
		cluster.admin.Exec("DROP DATABASE IF EXISTS " + cluster.template + " WITH (FORCE)")
		cluster.admin.Close()
	}
	if cluster.stop != nil {
		cluster.stop()
	}
}

// StartPostgres starts a server in a temporary folder, on loopback, with settings given as name=value. stop ends it and
// removes the folder; it also ends with this process.
func StartPostgres(settings ...string) (u *url.URL, stop func(), err error) {
	bin, err := PostgresBinaries()
	if err != nil {
		return nil, nil, err
	}
	port, release, err := ReservePort()
	if err != nil {
		return nil, nil, err
	}
	i, err := newInstallation(bin, clusterParent(), strconv.Itoa(port))
	stop = func() {
		i.end(syscall.SIGQUIT)
		release()
		os.RemoveAll(i.dir)
	}
	if err == nil {
		err = i.initialize()
	}
	if err == nil {
		err = i.start(settings)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	u = &url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", i.port), Path: "/postgres",
		RawQuery: "sslmode=disable", // or each connection would be two: the first asks for TLS, and is refused
	}
	return u, stop, nil
}

// installation is a server on loopback, whose data lie in a folder of its own.
type installation struct {
	bin, dir, port string
	attributes     *syscall.SysProcAttr
	process        *os.Process
	ended          <-chan struct{}
}

func newInstallation(bin, parent, port string) (i *installation, err error) {
	i = &installation{bin: bin, port: port}
	if i.dir, err = os.MkdirTemp(parent, "we"); err == nil {
		i.attributes, err = unprivileged(i.dir)
	}
	return i, err
}

func (i *installation) data() string { return filepath.Join(i.dir, "data") }

// run runs a program of PostgreSQL to its end.
func (i *installation) run(program string, args ...string) error {
	command := exec.Command(filepath.Join(i.bin, program), args...)
	command.Dir, command.SysProcAttr = i.dir, i.attributes
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// start starts the server. Its socket lies beside its data. One that is ended at once leaves memory that it shares under a name; a file goes
// with its folder.
func (i *installation) start(settings []string) error {
	log, err := os.OpenFile(filepath.Join(i.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", i.data(), "-p", i.port, "-k", i.dir}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "dynamic_shared_memory_type=mmap"}, settings...) {
		args = append(args, "-c", setting)
	}
	command := exec.Command(filepath.Join(i.bin, "postgres"), args...)
	command.Dir, command.SysProcAttr, command.Stdout, command.Stderr = i.dir, i.attributes, log, log
	i.ended, err = StartCommand(command)
	i.process = command.Process
	return err
}

// end sends a signal to the server that ends it, and waits.
func (i *installation) end(signal os.Signal) {
	if i.process != nil {
		i.process.Signal(signal)
		<-i.ended
	}
}

// initialize fills the folder of a new server. initdb takes ten times as long as a copy, and each package starts a server: what it
// made is kept beside the program under test.
func (i *installation) initialize() error {
	program := os.Getenv("TEST_PROGRAM")
	if program == "" {
		return i.initdb()
	}
	made, err := os.Stat(filepath.Join(i.bin, "initdb"))
	if err != nil {
		return err
	}
	kept := fmt.Sprintf("%s-initdb-%x", program, made.ModTime().Unix())
	if _, err := os.Stat(kept); err == nil {
		return i.copyCluster(kept)
	}
	if err := i.initdb(); err != nil {
		return err
	}
	mine := fmt.Sprintf("%s-%d", kept, os.Getpid())
	if os.CopyFS(mine, os.DirFS(i.data())) != nil || os.Rename(mine, kept) != nil {
		os.RemoveAll(mine) // another package was quicker, or there is no room
	}
	return nil
}

func (i *installation) initdb() error {
	return i.run("initdb", "-D", i.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// copyCluster copies a folder of initdb. The server wants it to be open to nobody else.
func (i *installation) copyCluster(from string) error {
	owner := i.attributes.Credential
	if err := errors.Join(os.CopyFS(i.data(), os.DirFS(from)), os.Chmod(i.data(), 0o700)); err != nil || owner == nil {
		return err
	}
	return filepath.WalkDir(i.data(), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, int(owner.Uid), int(owner.Gid)))
	})
}

// clusterParent is where clusters lie: in memory where that has room, since a database is some 300 files, and a file system
// that keeps a journal makes and removes them at several times the cost. The path is short: that of a socket has at most 107
// bytes.
func clusterParent() string {
	const memory, room = "/dev/shm", 4 << 30
	var is unix.Statfs_t
	if unix.Statfs(memory, &is) != nil || is.Bavail*uint64(is.Bsize) < room || unix.Access(memory, unix.W_OK) != nil {
		return "/tmp"
	}
	return memory
}

// PostgresBinaries finds the folder of initdb and postgres: TEST_POSTGRES_BIN, else that of PATH, else the newest version of
// Debian's.
func PostgresBinaries() (string, error) {
	if bin := os.Getenv("TEST_POSTGRES_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("TEST_DATABASE_URL is not set, and no initdb in PATH or /usr/lib/postgresql")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int {
		return len(a) - len(b) // 9 is older than 10
	})), nil
}

// unprivileged makes PostgreSQL, which refuses to run as root, run as somebody else who owns dir, and die with us.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(dir, uid, gid)
}

// Ports from firstPort to below lastPort are none that the kernel gives to connections: one of those may be taken before
// whoever was told of it listens there.
const firstPort, lastPort = 15000, 32000

// lastGiven is the port that FreePort returned last. Other test processes begin elsewhere.
var lastGiven = struct {
	sync.Mutex
	port int
}{port: firstPort + rand.IntN(lastPort-firstPort)}

// FreePort returns a port of the loopback interface on which nobody listens, and which no other call gets until the test
// ends.
func FreePort(tb testing.TB) int {
	tb.Helper()
	port, release, err := ReservePort()
	NoError(tb, err)
	tb.Cleanup(release)
	return port
}

// FreeAddress is a host and a free port.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(tb))
}

// ReservePort finds a free port for a program without tests. It binds a socket to a port and does not listen. SO_REUSEADDR, set once the port is
// ours, lets a program listen there that sets it too, as servers do; another bind without it fails.
func ReservePort() (port int, release func(), err error) {
	lastGiven.Lock()
	defer lastGiven.Unlock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	for range lastPort - firstPort {
		if lastGiven.port++; lastGiven.port >= lastPort {
			lastGiven.port = firstPort
		}
		if syscall.Bind(socket, &syscall.SockaddrInet4{Port: lastGiven.port, Addr: [4]byte{127, 0, 0, 1}}) == nil {
			err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
			return lastGiven.port, func() { syscall.Close(socket) }, err
		}
	}
	syscall.Close(socket)
	return 0, nil, errors.New("all ports are taken")
}

func poll(patience time.Duration, try func() error) (err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}

// Soon is how long anything takes at most that comes at once, on a machine that does much else and whose disk stands still now and then.
const Soon = 30 * time.Second

// Eventually fails the test unless ok becomes true soon.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	Within(tb, Soon, what, ok)
}

// Within is Eventually with a time of its own.
func Within(tb testing.TB, patience time.Duration, what string, ok func() bool) {
	tb.Helper()
	err := poll(patience, func() error {
		if ok() {
			return nil
		}
		return errors.New("not yet")
	})
	if err != nil {
		tb.Fatalf("still not after %v: %s", patience, what)
	}
}
