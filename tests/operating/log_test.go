package operating

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"worldevents/tests/servicetest"
)

// pipe is one that nobody reads yet.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	servicetest.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	shrink(t, w)
	return r, w
}

// shrink gives a pipe the least room, a page, which a few lines fill.
func shrink(t *testing.T, pipe *os.File) {
	t.Helper()
	servicetest.Must(unix.FcntlInt(pipe.Fd(), unix.F_SETPIPE_SZ, 1))(t)
}

// droppedLines is what the metric says.
func droppedLines(t *testing.T, s *servicetest.Process) (n int) {
	t.Helper()
	const name = "\nworldevents_log_lines_dropped_total "
	_, text := s.AdminBody("/metrics")
	_, rest, _ := strings.Cut(text, name)
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Errorf("no metric: %v", err)
	}
	return n
}

// longPath makes as long a line in the log as a request can.
var longPath = "/nothing-here/" + strings.Repeat("x", 600)

// A log whose reader stalls keeps nobody waiting. What cannot wait is dropped and counted, and when it is read again it goes
// on with whole lines.
func TestLogReaderStalls(t *testing.T) {
	t.Parallel()
	r, w := pipe(t)
	p := servicetest.NewProgram(t, "LOG_FORMAT=json", "SHUTDOWN_TIMEOUT=5s")
	s := p.ServeTo(w)
	w.Close()
	sent := 0
	servicetest.Eventually(t, time.Minute, "lines are dropped", func() bool {
		for range 500 {
			s.Is(404, "GET", longPath, "", "")
			sent++
		}
		return droppedLines(t, s) > 0
	})
	lines := make(chan map[string]any, 10_000)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(r); scan.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
				t.Errorf("%v: %.100s", err, scan.Bytes())
			}
			lines <- line
		}
	}()
	written, reported := 0, 0
	for line := range lines {
		switch line["msg"] {
		case "request":
			written++
		case "log lines were dropped":
			reported = int(line["lines"].(float64))
		}
		if reported > 0 {
			break
		}
	}
	if dropped := droppedLines(t, s); reported != dropped || written+dropped != sent {
		t.Errorf("sent %d, written %d, the log says that %d were dropped, the metric %d", sent, written, reported, dropped)
	}
	s.Do("GET", longPath, "", "")
	if line := <-lines; line["msg"] != "request" {
		t.Errorf("%v", line)
	}
	s.Stop()
	if line := <-lines; line["msg"] != "stopping" {
		t.Errorf("%v", line)
	}
}

// A stop takes its time and no more when nobody reads the log, and so does a failed start.
func TestStopWithoutLog(t *testing.T) {
	t.Parallel()
	_, w := pipe(t)
	p := servicetest.NewProgram(t, "SHUTDOWN_TIMEOUT=5s")
	s := p.ServeTo(w)
	for range 100 {
		s.Do("GET", longPath, "", "")
	}
	failed := p.Command("serve") // the address is in use
	failed.Stderr = w
	done := make(chan error, 1)
	go func() { done <- failed.Run() }()
	select {
	case <-done:
		servicetest.Is(t, failed.ProcessState.ExitCode(), 1, "exit status")
	case <-time.After(20 * time.Second):
		failed.Process.Kill()
		t.Error("the error that nobody reads keeps the process")
	}
	s.Stop()
}

// A log whose reader has gone, or whose device is full, ends nothing.
func TestLogReaderGone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		open func(t *testing.T) *os.File
	}{
		{"gone", func(t *testing.T) *os.File {
			r, w := pipe(t)
			r.Close()
			return w
		}},
		{"full", func(t *testing.T) *os.File {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				servicetest.Missing(t, "%v", err)
			}
			t.Cleanup(func() { full.Close() })
			return full
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servicetest.NewProgram(t).ServeTo(test.open(t))
			servicetest.Eventually(t, time.Minute, "lines are dropped", func() bool {
				for range 500 {
					s.Is(404, "GET", longPath, "", "")
				}
				return droppedLines(t, s) > 0
			})
			servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
			s.Stop()
		})
	}
}

// From the moment on that systemd is told, before all else, SIGHUP ends no start, however many come until the instance is ready.
func TestHangupDuringStart(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	notify := servicetest.Must(net.ListenPacket("unixgram", socket))(t)
	defer notify.Close()
	p := servicetest.NewProgram(t, "NOTIFY_SOCKET="+socket)
	command := p.Command("serve")
	servicetest.Must(servicetest.StartCommand(command))(t)
	defer command.Process.Kill()
	notify.SetReadDeadline(time.Now().Add(20 * time.Second))
	message := make([]byte, 100)
	if n, _, err := notify.ReadFrom(message); err != nil || string(message[:n]) != "READY=1" {
		t.Fatalf("%q %v", message[:n], err)
	}
	deadline := time.After(20 * time.Second)
	for ready := false; !ready; {
		if err := command.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatalf("it has ended: %v", err)
		}
		select {
		case <-deadline:
			t.Fatal("it is not ready")
		default:
			res, err := http.Get("http://" + p.Getenv("ADMIN_ADDR") + "/readyz")
			if ready = err == nil && res.StatusCode == 200; err == nil {
				res.Body.Close()
			}
		}
	}
}

// SIGHUP rereads LOG_LEVEL from the file .env, and never ends the process.
func TestHangup(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	dotEnv := func(text string) {
		t.Helper()
		servicetest.NoError(t, os.WriteFile(p.Dir+"/.env", []byte(text), 0o600))
	}
	dotEnv("LOG_LEVEL=warn\n")
	s := p.Serve()
	s.Readiness(200, 20*time.Second)
	logs := func(s *servicetest.Process, level string) bool {
		n := len(s.Log.String())
		s.Do("GET", "/nothing-here", "", "")
		marker := func() bool { return strings.Contains(s.Log.String()[n:], `"msg":"request"`) }
		if level == "info" {
			servicetest.Eventually(t, 10*time.Second, "the request is logged", marker)
			return true
		}
		return marker()
	}
	hangUp := func(s *servicetest.Process, want string) {
		t.Helper()
		n := len(s.Log.String())
		s.Signal(syscall.SIGHUP)
		servicetest.Eventually(t, 10*time.Second, want, func() bool { return strings.Contains(s.Log.String()[n:], want) })
	}
	if logs(s, "warn") {
		t.Error("LOG_LEVEL=warn logs requests")
	}
	dotEnv("LOG_LEVEL=info\nJWT_SECRET=another\n")
	hangUp(s, `"level":"info"`)
	logs(s, "info")
	dotEnv("LOG_LEVEL=loud\n")
	hangUp(s, "LOG_LEVEL: must be debug, info, warn or error")
	logs(s, "info")
	dotEnv("LOG_LEVEL=error\nthis is no setting\n")
	hangUp(s, ".env:2: must be NAME=value")
	logs(s, "info")
	dotEnv("LOG_LEVEL=error\n")
	hangUp(s, `"level":"error"`)
	if logs(s, "error") {
		t.Error("LOG_LEVEL=error logs requests")
	}
	hangUp(s, `"level":"error"`) // the line is written whatever the level is
	os.Remove(p.Dir + "/.env")
	hangUp(s, `"level":"info"`)
	logs(s, "info")

	dotEnv("LOG_LEVEL=error\n")
	real := p.With("LOG_LEVEL=info", "LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR="+servicetest.FreeAddress(t)).Serve()
	hangUp(real, `"level":"info"`)

	s.Signal(syscall.SIGTERM)
	for range 20 {
		s.Signal(syscall.SIGHUP)
		time.Sleep(5 * time.Millisecond)
	}
	servicetest.Is(t, s.Wait(20*time.Second), 0, "exit status")
}
