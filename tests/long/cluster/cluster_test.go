package cluster

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// tools are the programs of a cluster.
type tools struct{ etcd, patroni, haproxy, postgres string }

// cluster is three nodes, and HAProxy in front of them and of two instances of the service.
type cluster struct {
	t     *testing.T
	tools tools
	dir   string
	// network is the start of all addresses.
	network string
	nodes   []*node
	// acknowledged are the events that must be there, those of all drills so far.
	acknowledged map[string]bool
	// asynchronous means that no commit waits for a standby.
	asynchronous bool
}

// instance is one of two of the service, which restarts may replace. They find the leader in two ways: the first has the three nodes
// in its URL, the second goes through HAProxy.
type instance struct {
	name    string
	program *servicetest.Program
	process *servicetest.Process
}

// newCluster starts everything and waits until it is ready. All of it ends with the test, or with this process.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, acknowledged: make(map[string]bool), tools: tools{etcd: servicetest.Tool(t, "etcd"), patroni: servicetest.Tool(t, "patroni"), haproxy: servicetest.Tool(t, "haproxy"), postgres: postgresBinaries(t)}}
	c.network = fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	c.dir = servicetest.Must(os.MkdirTemp("/tmp", "we"))(t) // short: the path of a socket has at most 107 bytes
	c.startJanitor()
	servicetest.Unprivileged(t, c.dir)
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		c.nodes = append(c.nodes, &node{name: name, host: c.network + fmt.Sprint(i+1), dir: filepath.Join(c.dir, name)})
	}
	for _, n := range c.nodes {
		n.prepare(t, c.tools, c.nodes)
	}
	for _, n := range c.nodes {
		n.start(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range c.nodes {
				t.Logf("%s: patroni.log ends\n%s\netcd.log ends\n%s", n.name, n.tail("patroni.log"), n.tail("etcd.log"))
			}
		}
	})
	c.waitHealthy(t)
	c.leader(t).exec(t, "CREATE DATABASE worldevents")
	c.startHAProxy()
	return c
}

// postgresBinaries is the folder of PostgreSQL's programs.
func postgresBinaries(t *testing.T) string {
	t.Helper()
	bin, err := servicetest.PostgresBinaries()
	if err != nil {
		servicetest.Missing(t, "needs the programs of PostgreSQL: %v", err)
	}
	for _, program := range []string{"pg_basebackup", "pg_rewind"} {
		if _, err := exec.LookPath(filepath.Join(bin, program)); err != nil {
			servicetest.Missing(t, "needs %s: %v", program, err)
		}
	}
	return bin
}

// janitor ends every process that works in the folder $0, and removes the folder, as soon as its standard input ends.
const janitor = `cat
left=1
while [ $left ]; do
  left=
  for cwd in /proc/[0-9]*/cwd; do
    case $(readlink "$cwd") in
    "$0"/*)
      pid=${cwd#/proc/}
      kill -9 "${pid%/cwd}"
      left=1 ;;
    esac
  done
done
rm -rf "$0"`

// startJanitor starts the janitor, which outlives this process and cleans up, however it ends: Patroni detaches the servers that it
// starts, so no signal at our death would reach them.
func (c *cluster) startJanitor() {
	c.t.Helper()
	command := exec.Command("/bin/sh", "-c", janitor, c.dir)
	command.Dir, command.SysProcAttr = "/", &syscall.SysProcAttr{Setsid: true} // Ctrl-C does not reach it
	stdin := servicetest.Must(command.StdinPipe())(c.t)
	servicetest.NoError(c.t, command.Start())
	c.t.Cleanup(func() {
		stdin.Close()
		servicetest.Is(c.t, command.Wait(), nil, "the janitor")
	})
}

// haproxyConfig sends connections to the database to the node that Patroni calls the primary, and requests to ready instances: when
// none is ready, to live ones, which say so as JSON. It connects again where a connection is refused, and resends nothing.
const haproxyConfig = `
defaults
  retries 0
  timeout connect 2s
  timeout check 2s
  timeout client 60s
  timeout server 60s
listen database
  mode tcp
  bind NETWORK10:5432
  option httpchk OPTIONS /primary
  default-server check port 8008 inter 200ms fall 3 rise 1 on-marked-down shutdown-sessions
  server n1 NETWORK1:5432
  server n2 NETWORK2:5432
  server n3 NETWORK3:5432
frontend public
  mode http
  bind NETWORK10:8080
  use_backend ready if { nbsrv(ready) gt 0 }
  default_backend live
backend ready
  mode http
  option httpchk GET /readyz
  default-server check port 9090 inter 100ms fall 1 rise 1
  server i1 NETWORK11:8080
  server i2 NETWORK12:8080
backend live
  mode http
  retries 2
  option redispatch 1
  option httpchk GET /livez
  default-server check port 9090 inter 100ms fall 1 rise 1
  server i1 NETWORK11:8080
  server i2 NETWORK12:8080
listen status
  mode http
  bind NETWORK10:7000
  stats enable
  stats uri /
`

func (c *cluster) startHAProxy() {
	c.t.Helper()
	config := filepath.Join(c.dir, "haproxy.cfg")
	os.WriteFile(config, []byte(strings.ReplaceAll(haproxyConfig, "NETWORK", c.network)), 0o644)
	servicetest.Background(c.t, exec.Command(c.tools.haproxy, "-db", "-f", config))
}

// startInstances starts two instances at the addresses address and address+1, with first as the first host of their URL. HAProxy leads
// to those at 11 and 12.
func (c *cluster) startInstances(t *testing.T, first *node, address int) []*instance {
	t.Helper()
	hosts := []string{first.host}
	for _, n := range c.nodes {
		if n != first {
			hosts = append(hosts, n.host)
		}
	}
	var instances []*instance
	for i, way := range []struct{ name, url string }{
		{"three hosts", "postgres://postgres@" + strings.Join(hosts, ",") + "/worldevents?target_session_attrs=read-write"},
		{"HAProxy", "postgres://postgres@" + c.network + "10/worldevents"},
	} {
		program := servicetest.NewProgram(t, "DATABASE_URL="+way.url, "DB_TIMEOUT=2s", "SHUTDOWN_TIMEOUT=5s",
			fmt.Sprintf("LISTEN_ADDR=%s%d:8080", c.network, address+i), fmt.Sprintf("ADMIN_ADDR=%s%d:9090", c.network, address+i))
		instances = append(instances, &instance{way.name, program, program.ServeReady()})
	}
	servicetest.Eventually(t, "HAProxy has found both instances", func() bool { return c.instancesUp() == 2 })
	return instances
}

// publicURL leads to the instances through HAProxy.
func (c *cluster) publicURL() string { return "http://" + c.network + "10:8080" }

// instancesUp is how many instances HAProxy takes for ready.
func (c *cluster) instancesUp() (up int) {
	for line := range strings.Lines(get("http://" + c.network + "10:7000/;csv")) {
		if strings.HasPrefix(line, "ready,i") && strings.Contains(line, ",UP,") {
			up++
		}
	}
	return up
}

// member is a node as Patroni describes it.
type member struct{ Name, Role, State string }

// members asks one Patroni after the other.
func (c *cluster) members() []member {
	for _, n := range c.nodes {
		var cluster struct{ Members []member }
		if json.Unmarshal([]byte(get("http://"+n.host+":8008/cluster")), &cluster) == nil {
			return cluster.Members
		}
	}
	return nil
}

// leader is the node that has the leader's key.
func (c *cluster) leader(t *testing.T) *node {
	t.Helper()
	var leader *node
	servicetest.Eventually(t, "there is a leader", func() bool {
		for _, m := range c.members() {
			if m.Role == "leader" {
				leader = c.node(m.Name)
			}
		}
		return leader != nil
	})
	return leader
}

func (c *cluster) node(name string) *node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// waitHealthy waits until one node leads, and the others stream from it, one of them synchronously unless the cluster is asynchronous.
func (c *cluster) waitHealthy(t *testing.T) {
	t.Helper()
	synchronous := 1
	if c.asynchronous {
		synchronous = 0
	}
	begin := time.Now()
	servicetest.Within(t, 2*time.Minute, fmt.Sprintf("one node leads, the others stream, %d of them synchronously", synchronous), func() bool {
		roles := make(map[string]int)
		leader := ""
		for _, m := range c.members() {
			if roles[m.Role]++; m.Role == "leader" {
				leader = m.Name
			}
		}
		return roles["leader"] == 1 && roles["sync_standby"] == synchronous && roles["replica"] == 2-synchronous && c.node(leader).leadsTwo(t, synchronous)
	})
	t.Logf("the cluster is healthy after %v", time.Since(begin).Round(time.Millisecond))
}

// leadsTwo reports whether two standbys stream from the node, so many of them synchronously.
func (n *node) leadsTwo(t *testing.T, synchronous int) bool {
	var streaming, sync int
	err := n.read(t, "postgres", `SELECT count(*), count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication
		WHERE state = 'streaming' AND application_name ~ '^n[123]$'`, &streaming, &sync)
	return err == nil && streaming == 2 && sync == synchronous
}

// patroniDoes sends a request to the Patroni of the node, which must succeed.
func (n *node) patroniDoes(t *testing.T, method, path, body string) {
	t.Helper()
	b := servicetest.NewBrowser("http://"+n.host+":8008", plain)
	b.Timeout = time.Minute
	b.Do(method, path, body).Is(t, 200)
}

// switchover has Patroni give the leader's role to another node, to any where none is named.
func (n *node) switchover(t *testing.T, to string) {
	t.Helper()
	n.patroniDoes(t, "POST", "/switchover", fmt.Sprintf(`{"leader":%q,"candidate":%q}`, n.name, to))
}

// plain opens a connection for each request.
var plain = &http.Transport{DisableKeepAlives: true}

// get returns a document, "" for none.
func get(url string) string {
	b := servicetest.NewBrowser(url, plain)
	b.Timeout = 2 * time.Second
	return b.Do("GET", "", "").Body
}
