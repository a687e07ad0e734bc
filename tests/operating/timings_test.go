package operating

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Requests that wait for the database, or in it, show in two histograms: those that had to give up as those that waited
// for so long, and never as database time.
func TestTimingsOfTheDatabase(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		pool := map[string]string{"sqlite": "sqlite_write", "postgres": "postgres"}[db.Dialect]
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_MAX_CONNS=1", "DB_TIMEOUT=2s")
		s := p.ServeReady()
		cookies := p.Issue("alice")
		s.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, cookies)
		waitBefore, workBefore := timings(s, "wait_", pool), timings(s, "", pool)
		if waitBefore.count == 0 || waitBefore.count != workBefore.count || waitBefore.sum > 1 || workBefore.sum == 0 {
			t.Errorf("undisturbed: waiting %v, database %v", waitBefore, workBefore)
		}
		release := servicetest.Lock(t, db, "rsvps")
		waiting := func() float64 { return s.Metric(`worldevents_database_waiting_calls{pool="` + pool + `"}`) }
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
		var refusals, failures atomic.Int64
		ask := func(int) {
			switch status, _ := s.Do("POST", servicetest.Plaza, servicetest.EventBody, cookies); status {
			case http.StatusServiceUnavailable:
				refusals.Add(1)
			case http.StatusInternalServerError:
				failures.Add(1)
			}
		}
		var first sync.WaitGroup
		first.Go(func() { ask(0) })
		db.AwaitLock(t)
		servicetest.AtOnce(4, ask)
		first.Wait()
		refused, failed := float64(refusals.Load()), float64(failures.Load())
		close(stop)
		if !<-seen && pool != "postgres" { // where they may all wait for the lock, each in its turn
			t.Error("none was seen to wait")
		}
		servicetest.Is(t, s.Metric(`worldevents_database_errors_total{class="busy",pool="`+pool+`"}`), refused, "refusals counted")
		servicetest.Is(t, s.Metric(`worldevents_database_errors_total{class="timeout",pool="`+pool+`"}`), failed, "failures counted")
		release()
		servicetest.Eventually(t, "none waits", func() bool { return waiting() == 0 }) // nor what the service does by itself
		wait, work := timings(s, "wait_", pool), timings(s, "", pool)
		if refused < 4 || refused+failed != 5 {
			t.Fatalf("%v refused and %v failed", refused, failed)
		}
		waited := wait.sum - waitBefore.sum
		if waited < 0.7*refused || waited > 2.5*5 {
			t.Errorf("%v requests gave up, %v seconds were waited", refused, waited)
		}
		spent := work.sum - workBefore.sum // by those that failed, which may have waited first, and by what the service does by itself
		if wait.count-waitBefore.count < 5 || spent > 0.7*refused+2.5*failed || waited+spent < 0.7*5 {
			t.Errorf("%v refused, %v failed; waiting %v, before %v; database %v, before %v", refused, failed, wait, waitBefore, work, workBefore)
		}
	})
}

type histogram struct{ count, sum float64 }

// timings reads a histogram of a pool.
func timings(s *servicetest.Process, kind, pool string) histogram {
	name := `worldevents_database_` + kind + `duration_seconds_`
	return histogram{s.Metric(name + `count{pool="` + pool + `"}`), s.Metric(name + `sum{pool="` + pool + `"}`)}
}
