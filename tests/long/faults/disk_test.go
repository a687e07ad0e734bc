package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// smallDisk mounts a file system of so many KiB until the test ends.
func smallDisk(t *testing.T, kib string) (dir string) {
	t.Helper()
	dir = servicetest.Must(os.MkdirTemp("/tmp", "we"))(t) // a server that is another user's reaches it
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+kib+"k"); err != nil {
		servicetest.Missing(t, "a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		servicetest.Is(t, syscall.Unmount(dir, syscall.MNT_DETACH), nil, "error")
	})
	return dir
}

// fill takes all room that is left on the disk of dir until free is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f := servicetest.Must(os.Create(path))(t)
	defer f.Close()
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	return func() {
		t.Helper()
		servicetest.NoError(t, os.Remove(path))
	}
}

// The file of the database cannot be written to any more, while its log can: all goes on, one line says it, and so does the
// metric. Nothing that was acknowledged is lost.
func TestOnlyCheckpointsFail(t *testing.T) {
	t.Parallel()
	strace := servicetest.Tool(t, "strace")
	program := servicetest.NewProgram(t, "LOG_FORMAT=json", "LOG_LEVEL=warn")
	program.MustRun("migrate")
	file := filepath.Join(program.Dir, "worldevents.db")
	// With -D signals go to the program, and not to strace.
	p := under(t, program, fmt.Sprintf("%s -D -f --seccomp-bpf -q -o /dev/null -P %s -e trace=pwrite64 -e inject=pwrite64:error=ENOSPC", strace, file)).ServeReady()
	alice := signIn(t, plain, p.URL, "alice")
	var acknowledged []string
	servicetest.Within(t, 3*time.Minute, "the metric says it", func() bool {
		res := alice.createLarge("w")
		if res.Status != 200 {
			t.Fatal(res)
		}
		acknowledged = append(acknowledged, res.Header.Get("Event-Id"))
		_, blocked := walMetrics(t, p)
		return blocked > 1
	})
	servicetest.Is(t, p.Admin("/readyz"), 200, "/readyz")
	p.Says("the write-ahead log cannot be emptied", 1)
	p.Stop()
	alice.on(program.ServeReady()).keeps(t, "w", acknowledged)
	t.Logf("%d acknowledged and kept", len(acknowledged))
}

// The disk of the SQLite file is full for a while: writes are 503 and the instance is not ready until there is room, reads go on,
// and nothing that was acknowledged is lost.
func TestSQLiteOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "16384")
	program := servicetest.NewProgram(t, "DATABASE_URL=sqlite:"+filepath.Join(dir, "full.db"), "LOG_FORMAT=json")
	p := program.ServeReady()
	const users = 4
	transport := newTransport(users)
	defer transport.CloseIdleConnections()
	alice := make([]*user, users)
	for i := range alice {
		alice[i] = signIn(t, transport, p.URL, fmt.Sprint("user", i))
	}
	var mu sync.Mutex
	var acknowledged []string
	var refused atomic.Int64
	write := func(i int) {
		switch res := alice[i].createLarge("full"); {
		case res.Status == 200:
			mu.Lock()
			acknowledged = append(acknowledged, res.Header.Get("Event-Id"))
			mu.Unlock()
		case res.Status != 503 || !res.IsJSON() || res.Header.Get("Retry-After") == "":
			t.Error(res)
		default:
			refused.Add(1)
		}
	}
	stop := working(users, write)
	free := fill(t, dir)
	servicetest.Within(t, time.Minute, "writes are refused", func() bool { return refused.Load() > 0 })
	for before := refused.Load(); refused.Load() < before+200; {
		alice[0].clone().Do("GET", "/api/event/full?limit=1", "").Is(t, 200)
	}
	stop()
	write(0)
	// The log may have room for the small write of a probe where it has none for a large one: then it says so, and is right.
	hasRoom := func() bool { return strings.Contains(p.Log.String(), "the database takes writes again") }
	for begin := time.Now(); time.Since(begin) < 2*time.Second; { // several probes
		live, ready := p.Admin("/livez"), p.Admin("/readyz")
		if live != 200 {
			t.Fatalf("/livez %d while the disk is full", live)
		}
		if ready != 503 {
			servicetest.Eventually(t, fmt.Sprintf("/readyz %d while the disk is full: the log says that it has room", ready), hasRoom)
		}
	}
	free()
	p.Readiness(200, servicetest.Soon)
	alice[0].createLarge("full").Is(t, 200)
	servicetest.Eventually(t, "a line says it", func() bool { return strings.Contains(p.Log.String(), "the database takes no writes") })
	p.Stop()
	alice[0].on(program.ServeReady()).keeps(t, "full", acknowledged)
	t.Logf("%d acknowledged and kept, %d refused", len(acknowledged), refused.Load())
}
