package servicetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

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
