package faults

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"worldevents/tests/servicetest"
)

// startPgBouncer starts it in front of a server, in transaction mode, and returns its address. It ends with the test. crashed
// reports whether it has ended by itself, as 1.18 does now and then when a query is cancelled (its issue 822).
func startPgBouncer(t *testing.T, server *servicetest.PostgresServer, poolSize int) (address string, crashed func() bool) {
	t.Helper()
	host, port, _ := net.SplitHostPort(server.Addr)
	dir := servicetest.Must(os.MkdirTemp("/tmp", "we"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	listen := servicetest.FreePort(t)
	config := filepath.Join(dir, "pgbouncer.ini")
	os.WriteFile(config, fmt.Appendf(nil, `
[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 2000
; the tests copy and drop databases, which nobody may be connected to
server_idle_timeout = 1
`, host, port, listen, poolSize), 0o644)
	command := exec.Command(servicetest.Tool(t, "pgbouncer"), config)
	command.SysProcAttr, command.Dir = servicetest.Unprivileged(t, dir), dir
	log, _ := servicetest.Background(t, command)
	address = fmt.Sprintf("127.0.0.1:%d", listen)
	servicetest.Eventually(t, "PgBouncer listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return address, func() bool { return strings.Contains(log.String(), "server in bad state") }
}

// What runs the statements passes with PgBouncer between, in transaction mode, and with the URL that docs/operate/postgresql.md gives: random
// histories of worlds that are held against a model, and the tests of sessions and commands on PostgreSQL.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
	const tests = "^Test(Sequential|Refresh|SignIn|SignOut|End|Sessions|Session|PruneSessions|Event|User|CheckSchema)/^postgres$"
	for {
		address, crashed := startPgBouncer(t, server, 3)
		// With these flags make test has linked the same programs.
		suite := exec.Command("go", "test", "-vet=off", "-o", "bin/tests/", "-ldflags", "-s -w",
			"-count=1", "-p", "1", "-run", tests, "-timeout", "8m", "./tests/model", "./tests/sessions", "./tests/commands")
		suite.Dir = servicetest.Root(t)
		suite.Env = append(os.Environ(), "CI=true", // or without a database it would skip, and pass
			"TEST_DATABASE_URL=postgres://postgres@"+address+"/postgres?default_query_exec_mode=exec")
		out, err := suite.CombinedOutput()
		if err != nil && crashed() {
			t.Log("PgBouncer has crashed: the tests begin again")
			continue
		}
		if err != nil {
			t.Errorf("%v\n%.20000s", err, out)
		}
		t.Logf("%s", out)
		return
	}
}

// Behind PgBouncer in transaction mode the URL has to say that nothing is prepared. Where it does not, check and serve say which setting
// that is, before a request fails; serve goes on once it is right.
func TestPgBouncerWithoutSetting(t *testing.T) {
	t.Parallel()
	const missing = "add default_query_exec_mode=exec to DATABASE_URL"
	server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
	address, _ := startPgBouncer(t, server, 3)
	for _, test := range []struct {
		address, parameter string
		fault              bool
	}{
		{address, "", true}, {address, "", true}, // once more, with what the first look has left
		{address, "&default_query_exec_mode=exec", false}, {server.Addr, "", false}, {server.Addr, "&default_query_exec_mode=exec", false},
	} {
		p := servicetest.NewProgram(t, "DATABASE_URL=postgres://postgres@"+test.address+"/worldevents?sslmode=disable"+test.parameter)
		result, stderr := servicetest.Check(t, p)
		if got := strings.Contains(stderr, missing); got != test.fault || result.OK == test.fault {
			t.Errorf("%+v: %s", test, stderr)
		}
		if !test.fault {
			p.ServeReady().Signal(syscall.SIGKILL)
			continue
		}
		s := p.Serve()
		servicetest.Eventually(t, "/readyz names the setting", func() bool {
			status, body := s.AdminBody("/readyz")
			return status == 503 && strings.Contains(body, missing)
		})
		s.Says(missing, 1)
		s.Signal(syscall.SIGKILL)
	}
}
