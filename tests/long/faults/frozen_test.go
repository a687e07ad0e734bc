package faults

import (
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// An instance freezes in the middle of a sign-in, as a machine does that is suspended, and leaves the user's row locked: the
// server ends its transaction, and the user signs in on another instance. The frozen one, once it goes on, takes nothing for done.
func TestFrozenInstance(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_TIMEOUT=6s")
	frozen, other := p.ServeReady(), p.Another().ServeReady()
	signIn(t, plain, frozen.URL, "bob")
	db.Exec("CREATE TABLE opened (yes boolean)")
	db.Exec(`CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			WHILE NOT EXISTS (SELECT FROM opened) LOOP PERFORM pg_sleep(0.005); END LOOP;
			RETURN NEW;
		END $$`)
	db.Exec("CREATE TRIGGER gate BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION gate()")
	late := make(chan response)
	go func() {
		b := servicetest.NewBrowser(frozen.URL, plain)
		b.Timeout = 5 * time.Minute
		late <- b.SignIn("bob")
	}()
	const ours = "pg_stat_activity WHERE datname = current_database() AND "
	servicetest.Eventually(t, "the sign-in waits in the middle", func() bool {
		return db.Count(ours+"state = 'active' AND wait_event = 'PgSleep'") == 1
	})
	frozen.Signal(syscall.SIGSTOP)
	db.Exec("INSERT INTO opened VALUES (true)")
	servicetest.Eventually(t, "its transaction is idle, or has been ended", func() bool {
		return db.Count(ours+"state = 'active' AND wait_event = 'PgSleep'") == 0
	})
	bob := servicetest.NewBrowser(other.URL, plain)
	servicetest.Within(t, time.Minute, "bob signs in elsewhere", func() bool { return bob.SignIn("bob").Status == 303 })
	frozen.Signal(syscall.SIGCONT)
	if res := <-late; res.Status != 500 || len(res.Header.Values("Set-Cookie")) != 0 {
		t.Errorf("the sign-in that was in the middle: %v", res)
	}
	frozen.Readiness(200, servicetest.Soon)
	bob.URL = frozen.URL
	bob.Do("GET", servicetest.RefreshPath, "").Is(t, 200)
	servicetest.Is(t, db.Count("sessions WHERE token_hash IS NOT NULL"), 1, "sessions that can be refreshed")
}
