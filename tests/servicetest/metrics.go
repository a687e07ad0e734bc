package servicetest

import (
	"fmt"
	"io"
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

func AdminGet(t *testing.T, s *Service, path string) (int, string) {
	t.Helper()
	res, err := http.Get(s.AdminURL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// Held is how much is held of what, by its name in worldevents_held.
func Held(t *testing.T, s *Service, of string) int {
	t.Helper()
	return int(Metric(t, s, fmt.Sprintf("worldevents_held{of=%q}", of)))
}

// Metric is the value of a metric, which is named with its labels.
func Metric(t *testing.T, s *Service, name string) float64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(Metrics(t, s))
	if match == nil {
		t.Fatalf("no metric %s", name)
	}
	value, _ := strconv.ParseFloat(match[1], 64)
	return value
}

// Metric is the value of a metric, or the sum of all with the name if it has labels.
func (s *Process) Metric(name string) (sum float64) {
	s.tb.Helper()
	status, text := s.AdminBody("/metrics")
	matches := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(text, -1)
	if len(matches) == 0 {
		s.tb.Errorf("no metric %s: %d %.300s", name, status, text)
	}
	for _, match := range matches {
		value, _ := strconv.ParseFloat(match[1], 64)
		sum += value
	}
	return sum
}
