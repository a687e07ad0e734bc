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
// that away for seconds: of three times, each beside a peak of its own, the best one counts. Creates share connections, lists of
// different worlds do not.
func TestOverload(t *testing.T) {
	create := func(u *user, _ int) response {
		_, res := u.create("w", "x")
		return res
	}
	list := func(u *user, n int) response { return u.Do("GET", fmt.Sprint("/api/event/w", n), "") }
	for _, test := range []struct {
		name, setting string
		call          func(u *user, n int) response
	}{
		{"no connection comes free", "MAX_IN_FLIGHT=100000", list},
		{"too many in flight", "MAX_IN_FLIGHT=40", create},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := servicetest.Postgres(t)
			proxy, address := db.ThroughProxy()
			p := servicetest.NewProgram(t, "DATABASE_URL="+address, "DB_MAX_CONNS=4", "DB_TIMEOUT=2s", test.setting).ServeReady()
			transport := newTransport(2000)
			defer transport.CloseIdleConnections()
			users := make([]*user, 50) // one may not have all connections
			for i := range users {
				users[i] = signIn(t, transport, p.URL, fmt.Sprint("user", i))
			}
			var calls atomic.Int64
			call := func() response {
				n := int(calls.Add(1))
				return test.call(users[n%len(users)].clone(), n)
			}
			proxy.Slow(7500*time.Microsecond, 7500*time.Microsecond)

			left, refused := make([]float64, 3), 0
			for i := range left {
				peak := peakOf(call)
				goodput, statuses, unexpected := offer(2*peak, call)
				left[i] = goodput / peak
				t.Logf("peak %.0f/s; offered twice as much %.0f/s (%.0f %%), responses by status %v", peak, goodput, 100*left[i], statuses)
				if refused += statuses[503]; len(unexpected) > 0 {
					t.Errorf("wrongly refused: %v", unexpected)
				}
			}
			if refused == 0 {
				t.Error("nobody was refused")
			}
			if slices.Max(left) < 0.5 {
				t.Errorf("of the peak were left: %.2f", left)
			}
			servicetest.Eventually(t, "all is well again", func() bool {
				return call().Status == 200
			})
		})
	}
}

const during = 1500 * time.Millisecond

// peakOf is how many calls a second succeed.
func peakOf(call func() response) float64 {
	var done atomic.Int64
	stop := working(20, func(int) {
		if call().Status == 200 {
			done.Add(1)
		}
	})
	time.Sleep(during)
	peak := float64(done.Load()) / during.Seconds()
	stop()
	return peak
}

// offer makes so many calls a second and returns how many succeeded a second, all responses by status, and those that
// are neither a success nor a proper 503.
func offer(rate float64, call func() response) (goodput float64, statuses map[int]int, unexpected []response) {
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses = make(map[int]int)
	inTime := 0
	begin := time.Now()
	patience := time.Second // the queue in front of the connections is full from here on
	for sent := 0; time.Since(begin) < during+patience; time.Sleep(2 * time.Millisecond) {
		for ; float64(sent) < rate*time.Since(begin).Seconds(); sent++ {
			all.Go(func() {
				res := call()
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
