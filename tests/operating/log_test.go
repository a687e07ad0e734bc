package operating

import (
	"bufio"
	"encoding/json"
	"net"
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
	servicetest.Must(unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1))(t) // which is a page: a few lines fill it
	return r, w
}

// awaitDroppedLines sends requests until some leave no line, and returns how many it sent.
func awaitDroppedLines(t *testing.T, s *servicetest.Process) (sent int) {
	t.Helper()
	servicetest.Within(t, time.Minute, "lines are dropped", func() bool {
		for range 500 {
			s.Is(404, "GET", longPath, "", "")
			sent++
		}
		return droppedLines(s) > 0
	})
	return sent
}

// droppedLines is what the metric says.
func droppedLines(s *servicetest.Process) int {
	return int(s.Metric("worldevents_log_lines_dropped_total"))
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
	sent := awaitDroppedLines(t, s)
	lines := make(chan map[string]any, 10_000)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(r); scan.Scan(); {
			var line map[string]any
			servicetest.Is(t, json.Unmarshal(scan.Bytes(), &line), nil, "%.100s", scan.Bytes())
			lines <- line
		}
	}()
	written, reported := 0, 0
	for line := range lines {
		if line["msg"] == "request" {
			written++
		}
		if line["msg"] == "log lines were dropped" {
			reported = int(line["lines"].(float64))
			break
		}
	}
	servicetest.Is(t, reported, droppedLines(s), "dropped lines that the log reports")
	servicetest.Is(t, written+reported, sent, "lines written and dropped")
	s.Do("GET", longPath, "", "")
	servicetest.Is(t, (<-lines)["msg"], "request", "the next line")
	s.Stop()
	servicetest.Is(t, (<-lines)["msg"], "stopping", "the last line")
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
			awaitDroppedLines(t, s)
			servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
			s.Stop()
		})
	}
}

// Once systemd is notified, which comes before all else, SIGHUP ends no start, however many come until the instance is ready.
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
	servicetest.Eventually(t, "it is ready", func() bool {
		servicetest.NoError(t, command.Process.Signal(syscall.SIGHUP)) // which fails once it has ended
		response, err := requestOn(p.Getenv("ADMIN_ADDR"), "/readyz")
		return err == nil && strings.HasPrefix(response, "HTTP/1.1 200 ")
	})
}

// SIGHUP rereads LOG_LEVEL from the file .env, and never ends the process.
func TestHangup(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	dotEnv := func(text string) {
		servicetest.WriteSecret(t, p.Dir+"/.env", text)
	}
	dotEnv("LOG_LEVEL=warn\n")
	s := p.Serve()
	s.Readiness(200, servicetest.Soon)
	requests := 0
	logs := func(want bool) {
		t.Helper()
		if s.Do("GET", "/nothing-here", "", ""); want {
			requests++
		}
		s.Says(`"msg":"request"`, requests)
	}
	logs(false)
	dotEnv("LOG_LEVEL=info\nJWT_SECRET=another\n")
	s.HangUp(`"level":"info"`)
	logs(true)
	dotEnv("LOG_LEVEL=loud\n")
	s.HangUp("LOG_LEVEL: must be debug, info, warn or error")
	logs(true)
	dotEnv("LOG_LEVEL=error\nthis is no setting\n")
	s.HangUp(".env:2: must be NAME=value")
	logs(true)
	dotEnv("LOG_LEVEL=error\n")
	s.HangUp(`"level":"error"`)
	logs(false)
	s.HangUp(`"level":"error"`) // the line is written whatever the level is
	os.Remove(p.Dir + "/.env")
	s.HangUp(`"level":"info"`)
	logs(true)

	dotEnv("LOG_LEVEL=error\n")
	real := p.With("LOG_LEVEL=info", "LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR="+servicetest.FreeAddress(t)).Serve()
	real.HangUp(`"level":"info"`)

	s.Signal(syscall.SIGTERM)
	for range 20 {
		s.Signal(syscall.SIGHUP)
		time.Sleep(5 * time.Millisecond)
	}
	servicetest.Is(t, s.Wait(20*time.Second), 0, "exit status")
}
