package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// awaitWaits returns once n requests wait.
func (s *server) awaitWaits(n int) error {
	var last float64
	err := await(func() bool {
		last, _ = s.metric("worldevents_list_watches")
		return last == float64(n)
	})
	if err != nil {
		return fmt.Errorf("%.0f instead of %d wait", last, n)
	}
	return nil
}

// metric is the value of a metric of the service, the sum of all with the name if there are labels.
func (s *server) metric(name string) (sum float64, err error) {
	res, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	for _, match := range regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`(?:\{[^}]*\})? (\S+)$`).FindAllSubmatch(text, -1) {
		value, err := strconv.ParseFloat(string(match[1]), 64)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

// findPostmaster returns the process of which all of PostgreSQL's others are children.
func (s *env) findPostmaster() (pid int, err error) {
	child, err := s.ask("postgres", "SELECT pg_backend_pid()::text")
	if err != nil {
		return 0, err
	}
	pid, err = strconv.Atoi(child)
	if err != nil {
		return 0, err
	}
	if pid = parentOf(pid); pid == 0 {
		return 0, errors.New("no parent of process " + child)
	}
	return pid, nil
}

// databaseCPU is the processor time that PostgreSQL's processes have had that run now.
func (s *env) databaseCPU() (total time.Duration) {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range paths {
		if pid, _ := strconv.Atoi(filepath.Base(path)); parentOf(pid) == s.postmaster {
			total += cpuOf(pid)
		}
	}
	return total
}

// cpuOf is the processor time that the threads of a process have had, to the nanosecond; zero for none.
func cpuOf(pid int) (total time.Duration) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		onCPU, _, _ := strings.Cut(string(text), " ")
		nanoseconds, _ := strconv.ParseInt(onCPU, 10, 64)
		total += time.Duration(nanoseconds)
	}
	return total
}

// parentOf is the process that has started another, 0 for none.
func parentOf(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the name
	if fields := strings.Fields(rest); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}
