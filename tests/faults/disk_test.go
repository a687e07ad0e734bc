//go:build faults

package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
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
