package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/server/internal/session"
)

// Functions that every request passes, without network and database: go test -run '^$' -bench . ./server

func newBenchServer(b *testing.B) *Server {
	b.Helper()
	text, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		b.Fatal(err)
	}
	contract, err := ReadContract(text)
	if err != nil {
		b.Fatal(err)
	}
	store, err := models.Open(models.Options{URL: "sqlite:" + b.TempDir() + "/unused.db", MaxConns: 1, Timeout: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	s, err := New(Options{
		Contract: contract, Store: store, Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		BaseURL: &url.URL{Scheme: "https", Host: "api.example.org"},
		Keys:    [][]byte{[]byte("0123456789abcdefghijklmnopqrstuvwxyz-bench")}, MaxInFlight: 10,
	})
	if err != nil {
		b.Fatal(err)
	}
	s.Ready()
	return s
}

var benchUser = models.Grant{Identity: models.Identity{ID: models.ID{15: 1}, Username: "user1"}, SessionID: models.ID{15: 2}}

// BenchmarkSession is a whole call, from the handler of net/http down.
func BenchmarkSession(b *testing.B) {
	s := newBenchServer(b)
	r := httptest.NewRequest(http.MethodGet, "/api/auth/session", nil)
	r.Header.Set("Cookie", "token="+s.sessions.Issue(benchUser, session.NewRefreshToken()).Token)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		s.Public.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
}
