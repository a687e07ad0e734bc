package eventlist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"worldevents/models"
)

// What other processes write, of which no hint comes, is found within two seconds, and within four where hints are expected, while
// a hundred lists are watched. The time is the bubble's: what the machine does besides takes none of it.
func TestSweepIsInTime(t *testing.T) {
	for _, test := range []struct {
		name  string
		hears bool
		bar   time.Duration
	}{{"no instance is heard", false, 2 * time.Second}, {"instances are heard", true, 4 * time.Second}} {
		t.Run(test.name, func(t *testing.T) {
			testHub(t, func(t *testing.T, l *Lists, other *models.Store) {
				testSweepIsInTime(t, l, other, test.hears, test.bar)
			})
		})
	}
}

func testSweepIsInTime(t *testing.T, l *Lists, other *models.Store, hears bool, bar time.Duration) {
	const lists, writes = 100, 150
	l.hub.hears = func() bool { return hears }
	alice := signIn(t, l.store, "alice")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	written := make(map[int]time.Time) // by list, if the change is not found yet
	var slowest time.Duration
	for i := range lists {
		all.Go(func() {
			for etag := "none"; ctx.Err() == nil; {
				res := httptest.NewRecorder()
				list, err := l.Wait(ctx, Query{World: fmt.Sprint(i)}, Caller{Caller: alice, IfNoneMatch: []string{etag}}, time.Now().Add(50*time.Second))
				if err == nil {
					err = list.Write(res)
				}
				if err != nil { // too many come at once at first
					time.Sleep(100 * time.Millisecond)
					continue
				}
				mu.Lock()
				if at, ok := written[i]; ok && res.Code == 200 {
					slowest = max(slowest, time.Since(at))
					delete(written, i)
				}
				mu.Unlock()
				etag = res.Header().Get("Etag")
			}
		})
	}
	time.Sleep(time.Second)
	l.hub.waits(t, lists)
	for range writes {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		i := rand.IntN(lists)
		if _, err := other.CreateEvent(ctx, alice, models.Event{WorldID: fmt.Sprint(i), Name: "n", ScheduledAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if _, ok := written[i]; !ok {
			written[i] = time.Now()
		}
		mu.Unlock()
	}
	time.Sleep(bar)
	cancel()
	all.Wait()
	if slowest > bar || len(written) > 0 {
		t.Errorf("changes were found after up to %v, and %d were not within %v", slowest, len(written), bar)
	}
	t.Logf("%d changes of %d lists were found within %v", writes, lists, slowest)
}
