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
		last, _ = s.metric("worldevents_list_waits")
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

// postmaster returns the process of which all of PostgreSQL's others are children.
func (b *bench) postmaster(database string) (pid int, err error) {
	backend, err := b.ask(database, "SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
	if err != nil {
		return 0, err
	}
	fields := statOf(backend)
	if len(fields) < 2 {
		return 0, errors.New("no process " + backend)
	}
	return strconv.Atoi(fields[1])
}

// cpuBelow is the processor time that the children of a process have had, also those that have ended.
func cpuBelow(parent int) (total time.Duration) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		pid := strings.Split(path, "/")[2]
		fields, first := statOf(pid), 11
		switch {
		case pid == strconv.Itoa(parent):
			first = 13 // of its children that have ended
		case len(fields) < 2 || fields[1] != strconv.Itoa(parent):
			continue
		}
		for _, field := range fields[first : first+2] {
			ticks, _ := strconv.Atoi(field)
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total
}

// statOf returns the fields of /proc/pid/stat after the name.
func statOf(pid string) []string {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(rest)
}
