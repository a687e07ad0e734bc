package faults

import (
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// Two hosts in the URL, the second a synchronous standby. The first dies under load and the standby is promoted: the
// first write succeeds within five seconds, and nothing that was acknowledged is lost.
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := servicetest.NewPostgresServer(t)
	standby := primary.Standby("standby")
	makeSynchronous(t, primary)
	p := servicetest.NewProgram(t, "DATABASE_URL="+servicetest.PostgresURL(primary, standby), "DB_TIMEOUT=2s").ServeReady()
	load := newCreators(t, p, 10)
	primary.Kill()
	standby.Promote()
	first := load.firstWrite(5 * time.Second)
	p.Readiness(200, 20*time.Second)
	load.finish()
	t.Logf("first write %v after the promotion, %d acknowledged events are all there", first.Round(time.Millisecond), len(load.acknowledged))
}

// makeSynchronous has commits wait for the standby of that name, once it is there.
func makeSynchronous(t *testing.T, primary *servicetest.PostgresServer) {
	t.Helper()
	primary.Exec("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	primary.Exec("SELECT pg_reload_conf()")
	db := primary.Database()
	servicetest.Eventually(t, 20*time.Second, "the standby is synchronous", func() bool {
		return db.Count("pg_stat_replication WHERE sync_state = 'sync'") == 1
	})
}
