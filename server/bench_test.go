package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"worldevents/models"
)

// Functions that every request passes, without network and database: go test -run '^$' -bench . ./server

func newBenchServer(b *testing.B) *Server {
	b.Helper()
	text, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		b.Fatal(err)
	}
	store, err := models.Open(models.Options{URL: "sqlite:" + b.TempDir() + "/unused.db", MaxConns: 1, Timeout: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	s, err := New(Options{
		Contract: text, Store: store, Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		BaseURL: &url.URL{Scheme: "https", Host: "api.example.org"},
		Keys:    [][]byte{[]byte("0123456789abcdefghijklmnopqrstuvwxyz-bench")}, RefreshTTL: 720 * time.Hour, MaxInFlight: 10,
	})
	if err != nil {
		b.Fatal(err)
	}
	s.Ready()
	return s
}

var benchUser = models.Identity{ID: "01900000-0000-7000-8000-000000000001", Username: "user1"}

// BenchmarkVerifyJWT verifies a JWT that has not been seen before, and one that has.
func BenchmarkVerifyJWT(b *testing.B) {
	s := newBenchServer(b)
	token := s.sessions.issue(benchUser, "").Token
	for _, call := range []struct {
		name  string
		parse func(string) (claims, error)
	}{{"first", s.sessions.parse}, {"again", s.sessions.verify}} {
		b.Run(call.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call.parse(token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkContract is what the contract demands of a request, held against one that meets it.
func BenchmarkContract(b *testing.B) {
	text, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		b.Fatal(err)
	}
	c, err := loadContract(text, "https://api.example.org")
	if err != nil {
		b.Fatal(err)
	}
	const event = `{"name":"Boat trip","description":"Bring a coat.","scheduledAt":"2030-06-01T10:00:00+02:00"}`
	for _, call := range []struct {
		operation, method, path, id, body string
	}{
		{"createEvent", http.MethodPost, "/api/event/{id}", "harbour", event},
		{"listEvents", http.MethodGet, "/api/event/{id}", "harbour", ""},
		{"joinEvent", http.MethodPost, "/api/event/join/{id}", benchUser.ID, ""},
	} {
		b.Run(call.operation, func(b *testing.B) {
			check := newDemands(operationOf(b, c.doc, call.operation)).check(func(echo.Context) error { return nil })
			r := httptest.NewRequest(call.method, strings.Replace(call.path, "{id}", call.id, 1), nil)
			r.ContentLength = int64(len(call.body))
			if call.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			context := echo.New().NewContext(r, nil)
			context.SetParamNames("id")
			context.SetParamValues(call.id)
			b.ReportAllocs()
			for b.Loop() {
				r.Body = http.NoBody
				if call.body != "" {
					r.Body = io.NopCloser(strings.NewReader(call.body))
				}
				if err := check(context); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func operationOf(b *testing.B, doc *openapi3.T, id string) *openapi3.Operation {
	b.Helper()
	for _, path := range doc.Paths.Map() {
		for _, operation := range path.Operations() {
			if operation.OperationID == id {
				return operation
			}
		}
	}
	b.Fatalf("no operation %s", id)
	return nil
}

// BenchmarkSession is a whole call, from the handler of net/http down.
func BenchmarkSession(b *testing.B) {
	s := newBenchServer(b)
	r := httptest.NewRequest(http.MethodGet, "/api/auth/session", nil)
	r.Header.Set("Cookie", "token="+s.sessions.issue(benchUser, "").Token)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		s.Public.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
}
