package servicetest

import (
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

var stalledPattern = regexp.MustCompile(`(?m)^worldevents_(stalled_responses|aborted_responses_total) (\d+)$`)

// StalledResponses are how many responses wait for their clients, and how many were aborted.
func StalledResponses(t *testing.T, s *Service) (now, aborted int) {
	t.Helper()
	for _, match := range stalledPattern.FindAllStringSubmatch(Metrics(t, s), -1) {
		n, _ := strconv.Atoi(match[2])
		if match[1] == "stalled_responses" {
			now = n
		} else {
			aborted = n
		}
	}
	return now, aborted
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
