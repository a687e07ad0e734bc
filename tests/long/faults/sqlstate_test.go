package faults

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// The disk of the server is full: statements that need no room succeed, and the instance is not ready until there is room.
func TestDatabaseDiskFull(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	dir := smallDisk(t, "24576")
	servicetest.Unprivileged(t, dir) // who then owns it
	server.Exec("CREATE TABLESPACE small LOCATION '" + dir + "'")
	server.Exec("ALTER DATABASE worldevents SET TABLESPACE small")

	p := servicetest.NewProgram(t, "DATABASE_URL="+server.URL(), "DB_TIMEOUT=2s").ServeReady()
	alice := signIn(t, plain, p.URL, "alice")
	alice.createLarge("w").Is(t, 200)
	free := fill(t, dir)
	servicetest.Eventually(t, "a write fails", func() bool {
		res := alice.createLarge("w")
		if res.Status != 200 && (res.Status != 503 || !strings.Contains(res.Body, `"overloaded"`) || res.Header.Get("Retry-After") == "") {
			t.Error(res)
		}
		return res.Status != 200
	})
	for begin := time.Now(); time.Since(begin) < 4*time.Second; time.Sleep(50 * time.Millisecond) {
		if status := p.Admin("/readyz"); status != 503 {
			t.Fatalf("readiness %d with a full disk", status)
		}
	}
	alice.Do("GET", "/api/event/w?limit=1", "").Is(t, 200)
	free()
	p.Readiness(200, servicetest.Soon)
	alice.createLarge("w").Is(t, 200)
}

// The password of the role changes, and the file that PGPASSFILE names with it: the service goes on.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t)
	server.Exec("CREATE ROLE service LOGIN PASSWORD 'first'")
	server.Exec("ALTER DATABASE worldevents OWNER TO service")
	askForPasswords(server)
	file := filepath.Join(t.TempDir(), "pgpass")
	write := func(password string) {
		servicetest.NoError(t, os.WriteFile(file, []byte("*:*:*:service:"+password+"\n"), 0o600))
	}
	address, _ := url.Parse(server.URL())
	address.User = url.User("service")
	program := servicetest.NewProgram(t, "DATABASE_URL="+address.String(), "PGPASSFILE="+file, "DB_TIMEOUT=2s")
	write("wrong")
	servicetest.Eventually(t, "the server has read its file", func() bool {
		_, stderr, status := program.Run("migrate")
		return status == 1 && strings.Contains(stderr, "password authentication failed")
	})
	if _, stderr, status := program.Run("serve"); status != 1 || !strings.Contains(stderr, "password authentication failed") || strings.Contains(stderr, "wrong") {
		t.Errorf("a wrong password from the start: %d %s", status, stderr)
	}
	write("first")
	p := program.ServeReady()
	alice := signIn(t, plain, p.URL, "alice")
	server.Exec("ALTER ROLE service PASSWORD 'second'")
	server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'")
	p.Readiness(503, servicetest.Soon)
	if _, res := alice.create("w", "x"); res.Status != 503 || !strings.Contains(res.Body, `"overloaded"`) {
		t.Errorf("with the old password: %v", res)
	}
	write("second")
	p.Readiness(200, servicetest.Soon)
	alice.creates(t, "w")
}

// Two instances want more connections than the server has. Requests wait for those that there are, or are refused with
// 503 and Retry-After; none fails, and an instance that has connections stays ready.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "max_connections=20")
	program := servicetest.NewProgram(t, "DATABASE_URL="+server.URL(), "DB_TIMEOUT=10s", "DB_MAX_CONNS=20")
	first := program.ServeReady()
	second := program.Another().ServeReady()
	const n = 80
	transport := newTransport(n)
	defer transport.CloseIdleConnections()
	users := make([]*user, n)
	for i := range users {
		users[i] = signIn(t, transport, []string{first.URL, second.URL}[i%2], fmt.Sprintf("user%d", i/2))
	}
	var mu sync.Mutex
	statuses := make(map[int]int)
	var worlds atomic.Int64
	stop := working(n, func(i int) {
		_, res := users[i].create("w", "x") // shares connections
		if i%4 > 0 {
			res = users[i].Do("GET", fmt.Sprint("/api/event/w", worlds.Add(1)), "") // does not
		}
		mu.Lock()
		defer mu.Unlock()
		if statuses[res.Status]++; res.Status != 200 && (res.Status != 503 || res.Header.Get("Retry-After") == "" || !res.IsJSON()) {
			t.Error(res)
		}
	})
	servicetest.Eventually(t, "the server takes no more connections", func() bool {
		db, err := sql.Open("pgx", server.URL())
		servicetest.NoError(t, err)
		defer db.Close()
		err = db.Ping()
		return err != nil && strings.Contains(err.Error(), "53300")
	})
	mu.Lock()
	before := statuses[200]
	mu.Unlock()
	servicetest.Eventually(t, "requests go on", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return statuses[200] > before+200
	})
	stop()
	t.Logf("responses by status: %v", statuses)
}
