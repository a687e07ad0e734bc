package operating

import (
	"context"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Requests that wait for the database, or in it, show in two histograms: those that had to give up as those that waited
// for so long, and never as database time.
func TestTimingsOfTheDatabase(t *testing.T) {
	for _, test := range []struct {
		name, lock, pool string
		db               func(testing.TB) *servicetest.Database
	}{
		{"sqlite", "BEGIN IMMEDIATE", "sqlite_write", servicetest.SQLite},
		{"postgres", "BEGIN; LOCK TABLE rsvps", "postgres", servicetest.Postgres},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := test.db(t)
			p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_MAX_CONNS=1", "DB_TIMEOUT=2s")
			s := p.ServeReady()
			cookies := p.Issue("alice")
			const create = `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`
			if status, body := s.Do("POST", servicetest.Plaza, create, cookies); status != 200 {
				t.Fatal(status, body)
			}
			waitBefore, workBefore := timings(t, s, "wait_", test.pool), timings(t, s, "", test.pool)
			if waitBefore.count == 0 || waitBefore.count != workBefore.count || waitBefore.sum > 1 || workBefore.sum == 0 {
				t.Errorf("undisturbed: waiting %v, database %v", waitBefore, workBefore)
			}
			conn := servicetest.Must(db.DB.Conn(context.Background()))(t)
			defer conn.Close()
			servicetest.Must(conn.ExecContext(t.Context(), test.lock))(t)
			waiting := func() float64 { return value(t, s, `worldevents_database_waiting_calls{pool="`+test.pool+`"}`) }
			seen, stop := make(chan bool), make(chan struct{})
			go func() {
				for most := 0.0; ; most = max(most, waiting()) {
					select {
					case <-stop:
						seen <- most > 0
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
			var mu sync.Mutex
			refused, failed := 0.0, 0.0
			ask := func(int) {
				status, _ := s.Do("POST", servicetest.Plaza, create, cookies)
				mu.Lock()
				defer mu.Unlock()
				switch status {
				case http.StatusServiceUnavailable:
					refused++
				case http.StatusInternalServerError:
					failed++
				}
			}
			var first sync.WaitGroup
			first.Go(func() { ask(0) })
			db.AwaitLock(t)
			servicetest.AtOnce(4, ask)
			first.Wait()
			close(stop)
			if !<-seen && test.pool != "postgres" { // where they may all wait for the lock, each in its turn
				t.Error("none was seen to wait")
			}
			servicetest.Is(t, value(t, s, `worldevents_database_errors_total{class="busy",pool="`+test.pool+`"}`), refused, "refusals counted")
			servicetest.Is(t, value(t, s, `worldevents_database_errors_total{class="timeout",pool="`+test.pool+`"}`), failed, "failures counted")
			conn.ExecContext(context.Background(), "ROLLBACK")
			servicetest.Eventually(t, 20*time.Second, "none waits", func() bool { return waiting() == 0 }) // nor what the service does by itself
			wait, work := timings(t, s, "wait_", test.pool), timings(t, s, "", test.pool)
			if refused < 4 || refused+failed != 5 {
				t.Fatalf("%v refused and %v failed", refused, failed)
			}
			if got := wait.sum - waitBefore.sum; got < 0.7*refused || got > 2.5*5 {
				t.Errorf("%v requests gave up, %v seconds were waited", refused, got)
			}
			spent := work.sum - workBefore.sum // by those that failed, and by what the service does by itself
			if wait.count-waitBefore.count < 5 || spent > 0.7*refused+2.5*failed || spent < 0.7*failed {
				t.Errorf("%v refused, %v failed; waiting %v, before %v; database %v, before %v", refused, failed, wait, waitBefore, work, workBefore)
			}
		})
	}
}

type histogram struct{ count, sum float64 }

// timings reads a histogram of a pool.
func timings(t *testing.T, s *servicetest.Process, kind, pool string) histogram {
	t.Helper()
	name := `worldevents_database_` + kind + `duration_seconds_`
	return histogram{value(t, s, name+`count{pool="`+pool+`"}`), value(t, s, name+`sum{pool="`+pool+`"}`)}
}

// value reads a metric, which is named with its labels. It is NaN if there is none.
func value(t *testing.T, s *servicetest.Process, name string) float64 {
	_, text := s.AdminBody("/metrics")
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if match == nil {
		t.Errorf("no %s", name)
		return math.NaN()
	}
	n, _ := strconv.ParseFloat(match[1], 64)
	return n
}
