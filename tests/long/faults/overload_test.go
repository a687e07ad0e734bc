package faults

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Offered twice what it can do, the service goes on doing what it can, and never less than half of it; the rest is told to come back. The
// database is made slow, so that its connections are what runs out, and not the processor that the test runs on. Other programs take
// that away for seconds: of three times, each beside a peak of its own, the best one counts.
func TestOverload(t *testing.T) {
	for _, test := range []struct{ name, setting string }{
		{"no connection comes free", "MAX_IN_FLIGHT=100000"},
		{"too many in flight", "MAX_IN_FLIGHT=40"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := servicetest.Postgres(t)
			proxy, address := db.ThroughProxy()
			p := servicetest.NewProgram(t, "DATABASE_URL="+address, "DB_MAX_CONNS=4", "DB_TIMEOUT=2s", test.setting).ServeReady()
			transport := newTransport(2000)
			defer transport.CloseIdleConnections()
			alice := signIn(t, transport, p.URL, "alice")
			proxy.Slow(7500*time.Microsecond, 7500*time.Microsecond)

			left := make([]float64, 3)
			for i := range left {
				peak := peakOf(alice)
				goodput, statuses, unexpected := offer(alice, 2*peak)
				left[i] = goodput / peak
				t.Logf("peak %.0f/s; offered twice as much %.0f/s (%.0f %%), responses by status %v", peak, goodput, 100*left[i], statuses)
				if statuses[503] == 0 || len(unexpected) > 0 {
					t.Errorf("%d were refused, and wrongly: %v", statuses[503], unexpected)
				}
			}
			if slices.Max(left) < 0.5 {
				t.Errorf("of the peak were left: %.2f", left)
			}
			servicetest.Eventually(t, 20*time.Second, "all is well again", func() bool {
				_, res := alice.create("w", "x")
				return res.Status == 200
			})
		})
	}
}

const during = 1500 * time.Millisecond

// peakOf is how many events a second can be created.
func peakOf(u *user) float64 {
	var done atomic.Int64
	stop := make(chan struct{})
	wait := workers(20, stop, func(int) {
		if _, res := u.clone().create("w", "x"); res.Status == 200 {
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
				statuses[res.Status]++
				switch {
				case res.Status == 200:
					if at > patience && at <= during+patience {
						inTime++
					}
				case res.Status != 503 || res.Header.Get("Retry-After") == "" || !res.IsJSON():
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
		return servicetest.NewBrowser(p.URL, plain).Do("GET", "/api/auth/session", "", servicetest.Header("X-Forwarded-For", address))
	}
	var mu sync.Mutex
	statuses := make(map[int]int)
	begin := time.Now()
	servicetest.AtOnce(50, func(i int) {
		res := from(fmt.Sprintf("2001:db8::%x", i)) // one client: it can choose among all addresses of its network
		mu.Lock()
		defer mu.Unlock()
		statuses[res.Status]++
		if res.Status != 400 && (res.Status != 429 || res.Header.Get("Retry-After") == "" || !res.IsJSON()) {
			t.Error(res)
		}
	})
	if most := 10 + int(5*time.Since(begin).Seconds()); statuses[400] > most || statuses[400] < 5 {
		t.Errorf("of 50 requests at once %d were let through, %d at most may be", statuses[400], most)
	}
	if res := from("192.0.2.1"); res.Status != 400 {
		t.Errorf("another client: %v", res)
	}
}
