package tests

import (
	"io"
	"net/http"
	"testing"

	"worldevents/tests/service"
)

// metrics is what Prometheus would read.
func metrics(t *testing.T, s *service.Service) string {
	t.Helper()
	res, err := http.Get(s.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
