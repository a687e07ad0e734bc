//go:build faults

package faults

import (
	"encoding/json"
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
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+kib+"k"); err != nil {
		servicetest.Missing(t, "a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all room that is left on the disk of dir until free is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	return func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk of the log is full for a while: every request has its response meanwhile, and then the log goes on, with whole
// lines, and says what is missing.
func TestLogOnFullDisk(t *testing.T) {
	dir := smallDisk(t, "4096")
	path := filepath.Join(dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json").ServeTo(log)
	method := strings.Repeat("X", 7000) // makes a long line
	sent := 0
	request := func() {
		t.Helper()
		if status, body := p.Do(method, "/nothing-here", "", ""); status != 404 {
			t.Fatalf("request %d: %d %s", sent, status, body)
		}
		sent++
	}
	request()
	free := fill(t, dir)
	servicetest.Eventually(t, time.Minute, "lines are dropped", func() bool {
		for range 50 {
			request()
		}
		return metric(t, p, "worldevents_log_lines_dropped_total") > 0
	})
	if status := p.Admin("/readyz"); status != 200 {
		t.Errorf("/readyz %d", status)
	}
	free()
	report := syscall.ENOSPC.Error()
	servicetest.Eventually(t, 20*time.Second, "the log goes on", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), report)
	})
	request()
	p.Signal(syscall.SIGINT)
	if status := p.Wait(20 * time.Second); status != 0 {
		t.Errorf("exit status %d", status)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written, dropped, last := 0, 0, ""
	for line := range strings.Lines(string(text)) {
		var fields struct {
			Msg   string
			Lines int
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%v: %.100s", err, line)
		}
		if fields.Msg == "request" {
			written++
		}
		dropped += fields.Lines
		last = fields.Msg
	}
	if written+dropped != sent || last != "stopping" {
		t.Errorf("%d requests: %d written, %d dropped; the last line is %q", sent, written, dropped, last)
	}
	t.Logf("%d requests: %d written, %d dropped and counted", sent, written, dropped)
}

// The disk of the SQLite file is full for a while: writes are 503 and the instance is not ready until there is room, reads go on,
// and nothing that was acknowledged is lost.
func TestSQLiteOnFullDisk(t *testing.T) {
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
	acknowledged := make(map[string]bool)
	var refused atomic.Int64
	write := func(i int) {
		switch res := alice[i].createLarge("full"); {
		case res.status == 200:
			mu.Lock()
			acknowledged[res.header.Get("Event-Id")] = true
			mu.Unlock()
		case res.status != 503 || !res.isJSON() || res.header.Get("Retry-After") == "":
			t.Error(res)
		default:
			refused.Add(1)
		}
	}
	stop := make(chan struct{})
	wait := workers(users, stop, write)
	free := fill(t, dir)
	servicetest.Eventually(t, time.Minute, "writes are refused", func() bool { return refused.Load() > 0 })
	for before := refused.Load(); refused.Load() < before+200; {
		if res := alice[0].clone().do("GET", "/api/event/full?limit=1", ""); res.status != 200 {
			t.Fatal(res)
		}
	}
	close(stop)
	wait()
	write(0)
	for begin := time.Now(); time.Since(begin) < 2*time.Second; { // several probes
		if live, ready := p.Admin("/livez"), p.Admin("/readyz"); live != 200 || ready != 503 {
			t.Fatalf("/livez %d, /readyz %d while the disk is full", live, ready)
		}
	}
	free()
	servicetest.Eventually(t, 20*time.Second, "ready again", func() bool { return p.Admin("/readyz") == 200 })
	if res := alice[0].createLarge("full"); res.status != 200 {
		t.Error(res)
	}
	if !strings.Contains(p.Log.String(), "the database takes no writes") {
		t.Error("no line says it")
	}
	p.Signal(syscall.SIGINT)
	p.Wait(20 * time.Second)
	kept := make(map[string]bool)
	for _, event := range alice[0].on(program.ServeReady()).list(t, "full").Events {
		kept[event.ID] = true
	}
	for id := range acknowledged {
		if !kept[id] {
			t.Errorf("%s was acknowledged, and is lost", id)
		}
	}
	t.Logf("%d acknowledged and kept, %d refused", len(acknowledged), refused.Load())
}
