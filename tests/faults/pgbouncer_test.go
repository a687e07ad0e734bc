//go:build faults

package faults

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// The functional tests pass with PgBouncer between, in transaction mode, and with the URL that OPERATING.md gives.
func TestPgBouncer(t *testing.T) {
	pgbouncer := need(t, "pgbouncer")
	server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
	host, port, _ := net.SplitHostPort(server.Addr)
	dir, err := os.MkdirTemp("/tmp", "we")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listen := servicetest.FreePort()
	config := filepath.Join(dir, "pgbouncer.ini")
	os.WriteFile(config, []byte(fmt.Sprintf(`
[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 2000
; the tests copy and drop databases, which nobody may be connected to
server_idle_timeout = 1
`, host, port, listen)), 0o644)
	command := exec.Command(pgbouncer, config)
	command.SysProcAttr = servicetest.Unprivileged(t, dir)
	command.Dir = dir
	log := new(servicetest.Log)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		command.Process.Kill()
		command.Wait()
	}()
	servicetest.Eventually(t, 10*time.Second, "PgBouncer listens", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", listen))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})

	// A database that is made read-only stays writable on the connections that PgBouncer has.
	suite := exec.Command("go", "test", "-count=1", "-run", "/^postgres$", "-skip", "^TestReadinessOfReadOnlyDatabase$", "-timeout", "5m", "./tests")
	suite.Dir = servicetest.Root(t)
	suite.Env = append(os.Environ(), "CI=true", // or without a database it would skip, and pass
		fmt.Sprintf("TEST_DATABASE_URL=postgres://postgres@127.0.0.1:%d/postgres?default_query_exec_mode=exec", listen))
	out, err := suite.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%.20000s", err, out)
	}
	t.Logf("%s\n%.500s", out, log)
}
