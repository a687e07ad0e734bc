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

// The disk of the log is full for a while: every request has its response meanwhile, and then the log goes on, with whole
// lines, and says what is missing.
func TestLogOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "4096")
	path := filepath.Join(dir, "log")
	log := servicetest.Must(os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)
	defer log.Close()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json").ServeTo(log)
	method := strings.Repeat("X", 7000) // makes a long line
	sent := 0
	request := func() {
		t.Helper()
		p.Is(404, method, "/nothing-here", "", "")
		sent++
	}
	request()
	free := fill(t, dir)
	servicetest.Within(t, 3*time.Minute, "lines are dropped", func() bool {
		for range 50 {
			request()
		}
		return p.Metric("worldevents_log_lines_dropped_total") > 0
	})
	servicetest.Is(t, p.Admin("/readyz"), 200, "/readyz")
	free()
	report := syscall.ENOSPC.Error()
	servicetest.Eventually(t, "the log goes on", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), report)
	})
	request()
	p.Stop()
	text := servicetest.Must(os.ReadFile(path))(t)
	written, dropped, last := 0, 0, ""
	for line := range strings.Lines(string(text)) {
		var fields struct {
			Msg   string
			Lines int
		}
		servicetest.Is(t, json.Unmarshal([]byte(line), &fields), nil, "%.100s", line)
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
