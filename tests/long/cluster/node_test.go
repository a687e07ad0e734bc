package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"worldevents/tests/servicetest"
)

// node is a machine of the cluster: etcd, Patroni, and the PostgreSQL server that Patroni starts. It has a loopback address of
// its own, on which no connection that somebody else opens can take one of its ports while it is down.
type node struct {
	name, host string
	// dir holds all of its files, and is the working directory of all of its processes, or above it.
	dir string

	attributes *syscall.SysProcAttr
	etcd       []string // commands
	patroni    []string
}

// members are the etcd members of a cluster, as etcd's initial cluster.
func members(nodes []*node) string {
	var list []string
	for _, n := range nodes {
		list = append(list, fmt.Sprintf("%s=http://%s:2380", n.name, n.host))
	}
	return strings.Join(list, ",")
}

// prepare writes the configuration of a node among nodes.
func (n *node) prepare(t *testing.T, tools tools, nodes []*node) {
	t.Helper()
	servicetest.NoError(t, os.Mkdir(n.dir, 0o700))
	n.attributes = servicetest.Unprivileged(t, n.dir)
	n.attributes.Pdeathsig = 0 // the janitor ends all
	client, peer := fmt.Sprintf("http://%s:2379", n.host), fmt.Sprintf("http://%s:2380", n.host)
	n.etcd = []string{tools.etcd, "--name", n.name, "--data-dir", filepath.Join(n.dir, "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", members(nodes), "--initial-cluster-state", "new", "--initial-cluster-token", filepath.Base(filepath.Dir(n.dir)),
		"--heartbeat-interval", "200", "--election-timeout", "2000", "--logger", "zap", "--log-level", "warn"}
	config := filepath.Join(n.dir, "patroni.yml")
	n.patroni = []string{tools.patroni, config}
	var hosts []string
	for _, other := range nodes {
		hosts = append(hosts, other.host+":2379")
	}
	text := strings.NewReplacer("NAME", n.name, "HOST", n.host, "DIR", n.dir, "ETCD", strings.Join(hosts, ","), "BIN", tools.postgres).Replace(patroniConfig)
	servicetest.NoError(t, os.WriteFile(config, []byte(text), 0o644))
}

// patroniConfig has the shortest ttl that Patroni allows, and a primary that crashes is replaced rather than waited for. A killed
// process loses nothing that the kernel has, so nothing is synced to the disk.
const patroniConfig = `
scope: worldevents
name: NAME
restapi:
  listen: HOST:8008
  connect_address: HOST:8008
etcd3:
  hosts: ETCD
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 8
    synchronous_mode: true
    primary_start_timeout: 0
    maximum_lag_on_failover: 104857600
    postgresql:
      use_pg_rewind: true
      parameters:
        fsync: "off"
        wal_log_hints: "on"
        max_connections: 200
        shared_buffers: 16MB
        wal_keep_size: 64MB
        min_wal_size: 32MB
        max_wal_size: 64MB
  initdb:
    - encoding: UTF8
    - locale: C
    - no-sync
  pg_hba:
    - local all all trust
    - host all all 127.0.0.0/8 trust
    - host replication all 127.0.0.0/8 trust
postgresql:
  listen: HOST:5432
  connect_address: HOST:5432
  data_dir: DIR/data
  bin_dir: BIN
  pgpass: DIR/pgpass
  authentication:
    superuser:
      username: postgres
    replication:
      username: replicator
  parameters:
    unix_socket_directories: DIR
  basebackup:
    - checkpoint: fast
    - no-sync
`

// start starts etcd and Patroni, as the start of the machine would.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.run(t, n.etcd, "etcd.log")
	n.run(t, n.patroni, "patroni.log")
}

func (n *node) run(t *testing.T, args []string, log string) {
	t.Helper()
	file := servicetest.Must(os.OpenFile(filepath.Join(n.dir, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(t)
	defer file.Close()
	command := exec.Command(args[0], args[1:]...)
	command.Dir, command.SysProcAttr, command.Stdout, command.Stderr = n.dir, n.attributes, file, file
	command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + n.dir, "LC_ALL=C.UTF-8"}
	servicetest.NoError(t, command.Start())
	go command.Wait()
}

// kill ends all processes of the node as a loss of power would.
func (n *node) kill(t *testing.T) {
	n.pause(t) // none sees another die
	n.signalAll(t, syscall.SIGKILL, "Z")
}

// killPostgres ends PostgreSQL alone.
func (n *node) killPostgres(t *testing.T) {
	t.Helper()
	text := servicetest.Must(os.ReadFile(filepath.Join(n.dir, "data", "postmaster.pid")))(t)
	line, _, _ := strings.Cut(string(text), "\n")
	pid := servicetest.Must(strconv.Atoi(line))(t)
	syscall.Kill(pid, syscall.SIGKILL) // its children notice at once
}

// pause makes the node silent, without closing anything, until resume.
func (n *node) pause(t *testing.T) { n.signalAll(t, syscall.SIGSTOP, "TZ") }

// resume undoes pause.
func (n *node) resume(t *testing.T) { n.signalAll(t, syscall.SIGCONT, "RSDIZ") }

// signalAll sends a signal to all processes of the node, those that they start meanwhile too, until each is in one of the states of
// /proc or gone.
func (n *node) signalAll(t *testing.T, signal syscall.Signal, states string) {
	t.Helper()
	servicetest.Eventually(t, fmt.Sprintf("%v for all processes of %s", signal, n.name), func() bool {
		done := true
		for pid, state := range n.processes() {
			if !strings.Contains(states, state) {
				done = false
				syscall.Kill(pid, signal)
			}
		}
		return done
	})
}

// processes are those whose working directory is in the node's, with their states.
func (n *node) processes() map[int]string {
	found := make(map[int]string)
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		dir, err := os.Readlink(link)
		if err != nil || dir != n.dir && !strings.HasPrefix(dir, n.dir+"/") {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "stat"))
		_, rest, ok := strings.Cut(string(stat), ") ") // behind the name comes the state
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && ok {
			found[pid] = rest[:1]
		}
	}
	return found
}

// read scans the one row of a query to a database of the node, if it has one, and gives up soon.
func (n *node) read(t *testing.T, database, query string, dest ...any) error {
	db := servicetest.Must(sql.Open("pgx", fmt.Sprintf("postgres://postgres@%s/%s?connect_timeout=2", n.host, database)))(t)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if len(dest) == 0 {
		_, err := db.ExecContext(ctx, query)
		return err
	}
	return db.QueryRowContext(ctx, query).Scan(dest...)
}

// exec runs a statement in the database postgres.
func (n *node) exec(t *testing.T, statement string) {
	t.Helper()
	servicetest.NoError(t, n.read(t, "postgres", statement))
}

// tail is the end of a log.
func (n *node) tail(log string) string {
	text, _ := os.ReadFile(filepath.Join(n.dir, log))
	return string(text[max(0, len(text)-4000):])
}
