package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Offered twice what it can do, the service goes on doing nearly as much as it can; the rest is told to come back. The
// database is made slow, so that its connections are what runs out, and not the processor that the test runs on.
func TestOverload(t *testing.T) {
	for _, test := range []struct{ name, setting string }{
		{"no connection comes free", "MAX_IN_FLIGHT=100000"},
		{"too many in flight", "MAX_IN_FLIGHT=40"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := servicetest.Postgres(t)
			target := strings.Split(strings.SplitN(db.URL, "@", 2)[1], "/")[0]
			proxy := newToxiproxy(t, target)
			p := servicetest.NewProgram(t, "DATABASE_URL="+strings.Replace(db.URL, target, proxy.Listen, 1), "DB_MAX_CONNS=4", "DB_TIMEOUT=2s", test.setting).ServeReady()
			transport := newTransport(2000)
			defer transport.CloseIdleConnections()
			alice := signIn(t, transport, p.URL, "alice")
			if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type":"latency","attributes":{"latency":15}}`)); err != nil {
				t.Fatal(err)
			}

			// Whatever else the machine does can only make it worse.
			const tries, share = 3, 0.8
			for try := 1; ; try++ {
				peak := peakOf(alice)
				goodput, statuses, unexpected := offer(alice, 2*peak)
				t.Logf("peak %.0f/s; offered twice as much %.0f/s (%.0f %%), responses by status %v", peak, goodput, 100*goodput/peak, statuses)
				if goodput >= share*peak && statuses[503] > 0 && len(unexpected) == 0 {
					break
				}
				if try == tries {
					t.Fatalf("goodput fell below %.0f %% of the peak, nothing was refused, or wrongly: %v", 100*share, unexpected)
				}
			}
			servicetest.Eventually(t, 2*time.Second, "all is well again", func() bool {
				_, res := alice.create("w", "x")
				return res.status == 200
			})
		})
	}
}

const during = 4 * time.Second

// peakOf is how many events a second can be created.
func peakOf(u *user) float64 {
	var done atomic.Int64
	stop := make(chan struct{})
	wait := workers(20, stop, func(int) {
		if _, res := u.clone().create("w", "x"); res.status == 200 {
			done.Add(1)
		}
	})
	time.Sleep(during)
	peak := float64(done.Load()) / during.Seconds()
	close(stop)
	wait()
	return peak
}

// offer sends so many creates a second and returns how many succeeded a second, all responses by status, and those that
// are neither a success nor a proper 503.
func offer(u *user, rate float64) (goodput float64, statuses map[int]int, unexpected []response) {
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses = make(map[int]int)
	inTime := 0
	begin := time.Now()
	patience := time.Second // the queue in front of the connections is full from here on
	for sent := 0; time.Since(begin) < during+patience; time.Sleep(2 * time.Millisecond) {
		for ; float64(sent) < rate*time.Since(begin).Seconds(); sent++ {
			all.Go(func() {
				_, res := u.clone().create("w", "x")
				at := time.Since(begin)
				mu.Lock()
				defer mu.Unlock()
				statuses[res.status]++
				switch {
				case res.status == 200:
					if at > patience && at <= during+patience {
						inTime++
					}
				case res.status != 503 || res.header.Get("Retry-After") == "" || !res.isJSON():
					unexpected = append(unexpected, res)
				}
			})
		}
	}
	all.Wait()
	return float64(inTime) / during.Seconds(), statuses, unexpected
}

// A client over its rate is told so, and only that client.
func TestRateLimit(t *testing.T) {
	p := servicetest.NewProgram(t, "RATE_LIMIT=5", "TRUSTED_PROXIES=127.0.0.0/8").ServeReady()
	from := func(address string) response {
		u := &user{url: p.URL, http: plain}
		r, _ := http.NewRequest("GET", p.URL+"/api/auth/session", nil)
		r.Header.Set("X-Forwarded-For", address)
		return u.send(r)
	}
	statuses := make(map[int]int)
	for i := range 50 {
		res := from(fmt.Sprintf("2001:db8::%x", i)) // one client: it can choose among all addresses of its network
		statuses[res.status]++
		if res.status == 429 && (res.header.Get("Retry-After") == "" || !res.isJSON()) {
			t.Errorf("429 without Retry-After or JSON: %v", res)
		}
	}
	if statuses[429] < 30 || statuses[400] < 5 {
		t.Errorf("50 requests at once, 5 a second allowed: %v", statuses)
	}
	if res := from("192.0.2.1"); res.status != 400 {
		t.Errorf("another client: %v", res)
	}
}
