package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A disk that is full in the middle of a copy: one line, and nothing is left.
func TestCopyOntoAFullDisk(t *testing.T) {
	t.Parallel()
	for name, makeFrom := range servicetest.EmptyDatabases {
		t.Run(name, func(t *testing.T) {
			from := makeFrom(t)
			p := servicetest.NewProgram(t, "DATABASE_URL="+from.URL)
			p.MustRun("migrate")
			seedCopy(from, 20_000, 100, 20_000)
			failsToCopy := func(to string) {
				t.Helper()
				stdout, stderr, status := p.Run("copy", "--to", to)
				lines := strings.Split(strings.TrimSpace(stderr), "\n")
				last := lines[len(lines)-1]
				if status != 1 || stdout != "" || !strings.Contains(last, "worldevents: copy: ") || !strings.Contains(last, "full") && !strings.Contains(last, "No space left") {
					t.Errorf("%d %q %q", status, stdout, stderr)
				}
			}

			disk := smallDisk(t, "1024")
			failsToCopy("sqlite:" + filepath.Join(disk, "backup.db"))
			if entries, err := os.ReadDir(disk); err != nil || len(entries) != 0 {
				t.Errorf("left %v %v", entries, err)
			}

			server := servicetest.NewPostgresServer(t)
			space := smallDisk(t, "12288") // an empty database has 8 MB
			servicetest.Unprivileged(t, space)
			server.Exec("CREATE TABLESPACE small LOCATION '" + space + "'")
			server.Exec("ALTER DATABASE worldevents SET TABLESPACE small")
			failsToCopy(server.URL())
			db := server.Database()
			for _, table := range []string{"users", "sessions", "events", "rsvps"} {
				if n := db.Count(table); n != 0 {
					t.Errorf("%d rows of %s", n, table)
				}
			}
			db.DB.Close()
		})
	}
}

// A large database is copied within five minutes, and takes no more memory than a small one. COPYRSVPS says how large, in
// RSVPs: 5000000 is what is promised; fewer are quicker to make.
func TestCopyOfALargeDatabase(t *testing.T) {
	t.Parallel()
	rsvps, err := strconv.Atoi(os.Getenv("COPYRSVPS"))
	if err != nil {
		rsvps = 250_000
	}
	first := servicetest.EmptyPostgres(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+first.URL)
	p.MustRun("migrate")
	seedCopy(first, rsvps/25, rsvps/20, rsvps)
	file, second := servicetest.EmptySQLite(t), servicetest.EmptySQLite(t)
	checksum := ""
	back := servicetest.EmptyPostgres(t)
	for _, step := range []struct{ from, to *servicetest.Database }{{first, file}, {file, second}, {second, back}, {first, servicetest.EmptyPostgres(t)}} {
		begin := time.Now()
		copied, memory := copyMeasured(t, p.With("DATABASE_URL="+step.from.URL), step.to.URL)
		t.Logf("%s to %s: %d RSVPs in %.1f s, with %d MB of memory", step.from.Dialect, step.to.Dialect, copied.Rows["rsvps"], time.Since(begin).Seconds(), memory>>20)
		if took := time.Since(begin); took > 5*time.Minute {
			t.Errorf("%s to %s took %v", step.from.Dialect, step.to.Dialect, took)
		}
		if memory > 250<<20 {
			t.Errorf("%s to %s took %d MB of memory", step.from.Dialect, step.to.Dialect, memory>>20)
		}
		if checksum != "" && copied.Checksum != checksum || copied.Rows["rsvps"] != rsvps {
			t.Errorf("%s to %s: %+v, want %s", step.from.Dialect, step.to.Dialect, copied, checksum)
		}
		checksum = copied.Checksum
	}
	want := worldLists(t, first)
	for _, db := range []*servicetest.Database{file, back} {
		for world, list := range worldLists(t, db) {
			if list != want[world] {
				t.Errorf("world %d of %s: %.300s, want %.300s", world, db.Dialect, list, want[world])
			}
		}
	}
}

// worldLists are the lists of all worlds of seedCopy, as they come over HTTP.
func worldLists(t *testing.T, db *servicetest.Database) (lists [1000]string) {
	t.Helper()
	transport := newTransport(1)
	defer transport.CloseIdleConnections()
	s := servicetest.NewProgram(t, "DATABASE_URL="+db.URL).ServeReady()
	reader := signIn(t, transport, s.URL, "reader")
	for world := range lists {
		res := reader.Do("GET", fmt.Sprintf("/api/event/world%%20%d", world), "")
		if res.Status != 200 || !strings.Contains(res.Body, `"username":"user `) {
			t.Fatalf("world %d: %v", world, res)
		}
		lists[world] = res.Body
	}
	s.Signal(syscall.SIGINT)
	s.Wait(20 * time.Second)
	return lists
}

// copyMeasured copies, and returns the most memory that the program had.
func copyMeasured(t *testing.T, p *servicetest.Program, to string) (c servicetest.Copied, memory int64) {
	t.Helper()
	command := p.Command("copy", "--to", to)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil || json.Unmarshal(stdout.Bytes(), &c) != nil {
		t.Fatalf("%v %s", err, &stderr)
	}
	return c, maxRSS(command)
}

// maxRSS is in bytes.
func maxRSS(command *exec.Cmd) int64 {
	return command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// seedCopy writes so many users with sessions, and events in 1000 worlds with RSVPs, behind the service's back.
func seedCopy(db *servicetest.Database, users, events, rsvps int) {
	numbers := func(n int) string {
		return fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
	}
	id := func(kind int) string {
		if db.Dialect == "postgres" {
			return fmt.Sprintf("CAST('00000000-0000-7000-%04d-' || lpad(CAST(i AS text), 12, '0') AS uuid)", kind)
		}
		return fmt.Sprintf("printf('00000000-0000-7000-%04d-%%012d', i)", kind)
	}
	hash := "sha256(CAST(CAST(i AS text) AS bytea))"
	spent := "CAST('' AS bytea)"
	if db.Dialect == "sqlite" {
		hash, spent = "randomblob(32)", "x''"
	}
	db.Exec("INSERT INTO users (id, username, created_at, folded, skeleton) " + numbers(users) +
		"SELECT " + id(1) + ", 'user ' || CAST(i AS text), " + moment + ", NULL, NULL FROM n")
	db.Exec("INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, refreshed_at, expires_at, token_hash, spent) " + numbers(users) +
		"SELECT " + id(2) + ", " + id(1) + ", " + hash + ", " + moment + ", 'Firefox on Linux', '192.0.2.0/24', " + moment + ", " + moment + ", " + hash + ", " + spent + " FROM n")
	db.Exec("INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at) " + numbers(events) +
		"SELECT " + id(3) + ", 'world ' || CAST(i % 1000 AS text), NULL, 'Event ' || CAST(i AS text), 'Bring a coat, a lamp and something to eat.', " + moment + ", " + moment + " FROM n")
	each := rsvps / events
	db.Exec(fmt.Sprintf("INSERT INTO rsvps (event_number, created_at, user_number, username) "+numbers(each)+
		`SELECT e.number, %[2]s, u.number, u.username FROM events e, n, users u WHERE u.number = 1 + (e.number * 7919 + n.i) %% %[1]d`, users, moment))
}
