package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// The disk of the log is full for a while: every request has its response meanwhile, and then the log goes on, with whole
// lines, and says what is missing.
func TestLogOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "4096")
	path := filepath.Join(dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	servicetest.NoError(t, err)
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
	servicetest.Eventually(t, 3*time.Minute, "lines are dropped", func() bool {
		for range 50 {
			request()
		}
		return gauge(t, p, "worldevents_log_lines_dropped_total") > 0
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
	servicetest.NoError(t, err)
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

// The disk of the log is full from the start: the service serves, and writes all its lines once there is room.
func TestStartWithLogOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "1024")
	path := filepath.Join(dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	servicetest.NoError(t, err)
	defer log.Close()
	program := servicetest.NewProgram(t, "LOG_FORMAT=json")
	free := fill(t, dir)
	p := program.ServeTo(log)
	if status, body := p.Do("GET", "/nothing-here", "", ""); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	if info, err := log.Stat(); err != nil || info.Size() > 0 {
		t.Fatalf("the disk is not full: %v", err)
	}
	failing := program.With("LOG_LEVEL=loud").Command("serve")
	failing.Stderr = log
	if failing.Run(); failing.ProcessState.ExitCode() != 1 {
		t.Errorf("one that cannot start, and cannot say why: %v", failing.ProcessState)
	}
	free()
	var messages []string
	servicetest.Eventually(t, 20*time.Second, "the log goes on", func() bool {
		messages = logged(t, path)
		return slices.Contains(messages, "request")
	})
	for _, want := range []string{"serving", "ready"} {
		if !slices.Contains(messages, want) {
			t.Errorf("%q is missing in %q", want, messages)
		}
	}
	if dropped := gauge(t, p, "worldevents_log_lines_dropped_total"); dropped != 0 {
		t.Errorf("%.0f lines were dropped", dropped)
	}
}

// logged is the messages of a log, whose lines must be whole.
func logged(t *testing.T, path string) (messages []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	servicetest.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var fields struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%v: %.100s", err, line)
		}
		messages = append(messages, fields.Msg)
	}
	return messages
}
