package oidc

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A provider that takes connections and says nothing costs a sign-in some seconds, and a crowd of them no more than that. All who
// wait share one request.
func TestProviderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestProvider("https://provider.example")
		var asked, busy atomic.Int64
		p.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		const crowd = 200
		begun := time.Now()
		var group sync.WaitGroup
		for range crowd {
			group.Go(func() {
				_, err := p.AuthCodeURL(context.Background(), "192.0.2.1", p.NewFlow("/docs"))
				if errors.Is(err, ErrBusy) {
					busy.Add(1)
				} else if !errors.Is(err, ErrProvider) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := busy.Load(); n == 0 || n == crowd {
			t.Errorf("%d of %d had no place", n, crowd)
		}
		if n := asked.Load(); n > 3 {
			t.Errorf("the provider was asked %d times at once or in vain", n)
		}
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}
