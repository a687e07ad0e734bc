package servicetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Fails runs a command, which must print nothing, and fail in one line with these words. It returns that line.
func (p *Program) Fails(words string, args ...string) (line string) {
	p.tb.Helper()
	stdout, stderr, status := p.Run(args...)
	if status != 1 || stdout != "" || !OneLine(stderr, words) {
		p.tb.Errorf("%q: %d %q %q, want %q", args, status, stdout, stderr, words)
	}
	return stderr
}

// Succeeds runs a command, which must end with status 0, whatever it says, and returns what it has written.
func (p *Program) Succeeds(args ...string) (stdout, stderr string) {
	p.tb.Helper()
	stdout, stderr, status := p.Run(args...)
	Is(p.tb, status, 0, "status of %q: %s %s", args, stdout, stderr)
	return stdout, stderr
}

// Is sends a request with these cookies, whose response must have this status, and returns its body.
func (s *Process) Is(status int, method, path, body, cookies string) string {
	s.tb.Helper()
	got, text := s.Do(method, path, body, cookies)
	Is(s.tb, got, status, "%s %s: %.500s", method, path, text)
	return text
}

// Stop has the process end by itself.
func (s *Process) Stop() {
	s.tb.Helper()
	s.Signal(syscall.SIGTERM)
	Is(s.tb, s.Wait(30*time.Second), 0, "exit status")
}

// Is fails the test unless the response has this status.
func (res Result) Is(tb testing.TB, status int) {
	tb.Helper()
	Is(tb, res.Status, status, "%v", res)
}

// Ask is Do with all of the response.
func (s *Process) Ask(method, path, body, cookies string, with ...RequestOption) Result {
	return NewBrowser(s.URL, plain).Do(method, path, body, append(with, Header("Cookie", cookies))...)
}

// Kill ends the process as a crash does.
func (s *Process) Kill() {
	s.tb.Helper()
	s.Signal(syscall.SIGKILL)
	s.Wait(30 * time.Second)
}

// Issue signs a user in, and returns the two cookies as a header.
func (p *Program) Issue(name string) string {
	p.tb.Helper()
	return strings.TrimSpace(p.MustRun("session", "issue", name))
}

// Memory returns how many bytes of memory the process has (VmRSS; RssAnon without files) or has had at most (VmHWM).
func (s *Process) Memory(what string) int {
	s.tb.Helper()
	status := Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid)))(s.tb)
	_, rest, _ := strings.Cut(string(status), what+":")
	kilobytes := Must(strconv.Atoi(strings.Fields(rest)[0]))(s.tb)
	return kilobytes << 10
}

// ForgetPeak makes the peak of memory begin anew.
func (s *Process) ForgetPeak() {
	s.tb.Helper()
	NoError(s.tb, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.command.Process.Pid), []byte("5"), 0))
}

// Files returns how many file descriptors the process has open, sockets included.
func (s *Process) Files() int {
	s.tb.Helper()
	entries := Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.command.Process.Pid)))(s.tb)
	return len(entries)
}

// Pid is the id of the process.
func (s *Process) Pid() int { return s.command.Process.Pid }
