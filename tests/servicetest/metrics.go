package servicetest

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"testing"
)

// Metrics is what Prometheus would read.
func Metrics(t *testing.T, s *Service) string {
	t.Helper()
	status, text := AdminGet(t, s, "/metrics")
	if status != 200 {
		t.Fatalf("/metrics: %d %s", status, text)
	}
	return text
}

// AdminGet asks the operator's listener.
func AdminGet(t *testing.T, s *Service, path string) (int, string) {
	t.Helper()
	res := Must(http.Get(s.AdminURL + path))(t)
	defer res.Body.Close()
	return res.StatusCode, string(Must(io.ReadAll(res.Body))(t))
}

// Held is how much is held of what, by its name in worldevents_held.
func Held(t *testing.T, s *Service, of string) int {
	t.Helper()
	return int(Metric(t, s, fmt.Sprintf("worldevents_held{of=%q}", of)))
}

// Metric is the value of a metric, which is named with its labels, or else the sum of all of its name; NaN where there is none.
func Metric(t *testing.T, s *Service, name string) float64 {
	t.Helper()
	return metric(t, Metrics(t, s), name)
}

// Metric is the value of a metric of the process, as the other Metric.
func (s *Process) Metric(name string) float64 {
	s.tb.Helper()
	_, text := s.AdminBody("/metrics")
	return metric(s.tb, text, name)
}

func metric(tb testing.TB, text, name string) (sum float64) {
	tb.Helper()
	matches := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(text, -1)
	if matches == nil {
		tb.Errorf("no metric %s in %.300s", name, text)
		return math.NaN()
	}
	for _, match := range matches {
		sum += Must(strconv.ParseFloat(match[1], 64))(tb)
	}
	return sum
}
