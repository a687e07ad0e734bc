package worlds

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"worldevents/models"
)

// allowed returns a call whose answer is kept.
func allowed(tb testing.TB) func() {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tb.Cleanup(server.Close)
	at, _ := url.Parse(server.URL)
	find := func(context.Context, models.Caller) (models.User, error) { return models.User{}, nil }
	o := New(*at, "", find, time.Now)
	return func() {
		if err := o.Allow(tb.Context(), models.Caller{UserID: models.ID{1}}, "plaza", "list"); err != nil {
			tb.Fatal(err)
		}
	}
}

// A kept answer costs no more than the look at it.
func TestKeptAnswerAllocates(t *testing.T) {
	call := allowed(t)
	if n := testing.AllocsPerRun(1000, call); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkKeptAnswer(b *testing.B) {
	call := allowed(b)
	call()
	for b.Loop() {
		call()
	}
}
