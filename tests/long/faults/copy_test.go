package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
			servicetest.Seed(from, 20_000, 100, 20_000)
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
				servicetest.Is(t, db.Count(table), 0, "rows of %s", table)
			}
			db.DB.Close()
		})
	}
}

// A large database is copied with the memory that a small one takes. COPYRSVPS says how large, in RSVPs: the page speaks of millions;
// fewer are quicker to make.
func TestCopyOfALargeDatabase(t *testing.T) {
	t.Parallel()
	rsvps, err := strconv.Atoi(os.Getenv("COPYRSVPS"))
	if err != nil {
		rsvps = 250_000
	}
	first := servicetest.EmptyPostgres(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+first.URL)
	p.MustRun("migrate")
	servicetest.Seed(first, rsvps/25, rsvps/20, rsvps)
	file, second := servicetest.EmptySQLite(t), servicetest.EmptySQLite(t)
	checksum := ""
	back := servicetest.EmptyPostgres(t)
	for _, step := range []struct{ from, to *servicetest.Database }{{first, file}, {file, second}, {second, back}, {first, servicetest.EmptyPostgres(t)}} {
		begin := time.Now()
		copied, memory := copyMeasured(t, p.With("DATABASE_URL="+step.from.URL), step.to.URL)
		t.Logf("%s to %s: %d RSVPs in %.1f s, with %d MB of memory", step.from.Dialect, step.to.Dialect, copied.Rows["rsvps"], time.Since(begin).Seconds(), memory>>20)
		servicetest.True(t, memory < 128<<20, "%s to %s took %d MB of memory", step.from.Dialect, step.to.Dialect, memory>>20)
		if checksum != "" && copied.Checksum != checksum || copied.Rows["rsvps"] != rsvps {
			t.Errorf("%s to %s: %+v, want %s", step.from.Dialect, step.to.Dialect, copied, checksum)
		}
		checksum = copied.Checksum
	}
	want := worldLists(t, first)
	for _, db := range []*servicetest.Database{file, back} {
		for world, list := range worldLists(t, db) {
			servicetest.Is(t, list, want[world], "world %d of %s", world, db.Dialect)
		}
	}
}

// worldLists are the lists of all worlds of servicetest.Seed, as they come over HTTP.
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
	s.Stop()
	return lists
}

// copyMeasured copies, and returns the most memory that the program had. The kernel's figure for a process that has ended (ru_maxrss) is
// no use: it counts what the test had when it made the process (getrusage(2)).
func copyMeasured(t *testing.T, p *servicetest.Program, to string) (c servicetest.Copied, memory int64) {
	t.Helper()
	command := p.Command("copy", "--to", to)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	servicetest.NoError(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil || json.Unmarshal(stdout.Bytes(), &c) != nil {
				t.Fatalf("%v %s", err, &stderr)
			}
			return c, memory
		case <-time.After(5 * time.Millisecond):
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid))
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
				kilobytes, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				memory = kilobytes << 10
			}
		}
	}
}
