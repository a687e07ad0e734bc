package faults

import (
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Three hosts are in the URL, the last a synchronous standby. The first dies under load, or is silent without closing anything, which must be
// noticed first, and the last is promoted: the first write succeeds within five seconds of that, however long the first stays silent, and
// nothing that was acknowledged is lost.
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault func(*servicetest.PostgresServer)
		lasts time.Duration // before the promotion
	}{
		{"killed", (*servicetest.PostgresServer).Kill, 0},
		{"silent", (*servicetest.PostgresServer).Pause, 0},
		{"silent for long", (*servicetest.PostgresServer).Pause, 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			primary := servicetest.NewPostgresServer(t)
			other, standby := primary.Standby("other"), primary.Standby("standby")
			makeSynchronous(t, primary)
			p := servicetest.NewProgram(t, "DATABASE_URL="+servicetest.PostgresURL(primary, other, standby), "DB_TIMEOUT=2s").ServeReady()
			load := newCreators(t, p, 30)
			test.fault(primary)
			time.Sleep(test.lasts) // the outage, not for anything to happen
			standby.Promote()
			promoted := time.Now()
			first := load.firstWrite(5 * time.Second)
			p.Readiness(200, servicetest.Soon)
			ready := time.Since(promoted)
			load.finish()
			t.Logf("first write %v and ready %v after the promotion, %d acknowledged events are all there, the slowest response took %v",
				first.Round(time.Millisecond), ready.Round(time.Millisecond), len(load.acknowledged), load.slowest.Took.Round(time.Millisecond))
		})
	}
}

// makeSynchronous has commits wait for the standby of that name, once it is there.
func makeSynchronous(t *testing.T, primary *servicetest.PostgresServer) {
	t.Helper()
	primary.Exec("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	primary.Exec("SELECT pg_reload_conf()")
	db := primary.Database()
	servicetest.Eventually(t, "the standby is synchronous", func() bool {
		return db.Count("pg_stat_replication WHERE sync_state = 'sync'") == 1
	})
}
