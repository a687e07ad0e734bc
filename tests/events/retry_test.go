package events

import (
	"fmt"
	"testing"

	"worldevents/tests/servicetest"
)

// PostgreSQL may ask for a transaction to be repeated. It is, whole, and a bounded number of times; nothing else that
// writes ever is: a write that failed in another way may have happened.
func TestRetry(t *testing.T) {
	const tries, locked = 4, 99
	for _, test := range []struct {
		code         string
		failures     int
		status, want int // want is how often it is tried
		atCommit     bool
	}{
		{"40001", 1, 200, 2, false},
		{"40001", tries - 1, 200, tries, false},
		{"40P01", tries, 503, tries, false},
		{"40000", 1, 500, 1, false},      // transaction rollback
		{"55P03", 1, 200, 2, false},      // lock not available: once more, by itself
		{"55P03", locked, 503, 3, false}, // and in a place, where a try that took half of its turn is followed by another
		{"53100", 1, 503, 1, false},      // disk full, in answer to a statement: nothing has happened
		{"53100", 1, 500, 1, true},
		{"57014", 1, 500, 1, false}, // canceled
		{"57P01", 1, 500, 1, false}, // shutting down
		{"08006", 1, 500, 1, false}, // connection failure
		{"XX000", 1, 500, 1, false}, // internal error
	} {
		t.Run(fmt.Sprintf("%s %d times, at commit %v", test.code, test.failures, test.atCommit), func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t))
			alice, bob := s.SignIn("alice"), s.SignIn("bob")
			joined := alice.Create("w", "x", "2030-01-01T00:00:00Z")
			events, rsvps := s.Database.Count("events"), s.Database.Count("rsvps")
			for _, table := range []string{"rsvps", "sessions"} { // what is written last of all by create and join, and by refresh
				// A sequence counts what a rollback takes back.
				s.Database.Exec("CREATE SEQUENCE tries_" + table)
				s.Database.Exec(fmt.Sprintf(`
					CREATE FUNCTION fail_%[1]s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
						IF nextval('tries_%[1]s') <= %[2]d THEN RAISE EXCEPTION 'injected' USING ERRCODE = '%[3]s'; END IF;
						RETURN NEW;
					END $$`, table, test.failures, test.code))
				trigger := "CREATE TRIGGER fail AFTER INSERT OR UPDATE ON %[1]s FOR EACH ROW EXECUTE FUNCTION fail_%[1]s()"
				if test.atCommit {
					trigger = "CREATE CONSTRAINT TRIGGER fail AFTER INSERT OR UPDATE ON %[1]s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail_%[1]s()"
				}
				s.Database.Exec(fmt.Sprintf(trigger, table))
			}
			tried := func(table string) (n int) {
				s.Database.Read("SELECT last_value FROM tries_"+table, nil, &n)
				s.Database.Exec("ALTER SEQUENCE tries_" + table + " RESTART")
				return n
			}
			for _, act := range []struct {
				table string
				send  func() *servicetest.Response
			}{
				{"rsvps", func() *servicetest.Response {
					return alice.Post("/api/event/w", `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`)
				}},
				{"rsvps", func() *servicetest.Response { return bob.Post("/api/event/join/"+joined, "") }},
				{"sessions", func() *servicetest.Response { return alice.Get(servicetest.RefreshPath) }},
			} {
				res := act.send()
				if n := tried(act.table); res.Status != test.status || n < test.want || n > test.want && test.failures != locked {
					t.Errorf("%s: got %d after %d tries, want %d after %d", act.table, res.Status, n, test.status, test.want)
				}
				if test.status == 503 {
					isOverloaded(t, res)
				}
			}
			if test.status == 200 {
				events, rsvps = events+1, rsvps+2
			}
			servicetest.Is(t, s.Database.Count("events"), events, "events")
			servicetest.Is(t, s.Database.Count("rsvps"), rsvps, "RSVPs")
		})
	}
}

// A read whose connection is lost is repeated, as often as a transaction.
func TestReadsOnLostConnection(t *testing.T) {
	const tries = 4
	for _, test := range []struct{ lost, status int }{{1, 200}, {tries - 1, 200}, {tries, 500}} {
		t.Run(fmt.Sprintf("%d times", test.lost), func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t))
			alice := s.SignIn("alice")
			alice.Create("plaza", "a", servicetest.When)
			tx := servicetest.BeginTx(t, s.Database, "LOCK TABLE events")
			arrived := make(chan *servicetest.Response, 1)
			go func() { arrived <- alice.Get(servicetest.Plaza) }()
			pid := 0
			for range test.lost {
				servicetest.Eventually(t, "the list is read, on another connection", func() bool {
					before := pid
					s.Database.Read("SELECT coalesce(max(pid), ?) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%pg_current_snapshot()%' AND pid <> ?",
						[]any{before, before}, &pid)
					return pid != before
				})
				s.Database.Exec("SELECT pg_terminate_backend(?)", pid)
			}
			if test.status == 200 {
				tx.Rollback()
			}
			(<-arrived).Has(test.status)
		})
	}
}

// All connections of a pool may be lost at once. Who has met one of them meets no other.
func TestReadsOnLostPool(t *testing.T) {
	const conns = 12
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) { o.DBMaxConns, o.ListCache = conns, 0 })
	var users []*servicetest.Client // of whom each has but a part of the pool
	for i := range conns {
		users = append(users, s.SignIn(fmt.Sprint("user ", i)))
	}
	world := func(i int) string { return fmt.Sprint("/api/event/w", i) }
	var pids string
	for range 2 { // after its first use a connection has to respond once
		tx := servicetest.BeginTx(t, s.Database, "LOCK TABLE events")
		go func() {
			servicetest.Eventually(t, "each connection is used", func() bool {
				var n int
				s.Database.Read("SELECT count(*), coalesce(string_agg(CAST(pid AS text), ','), '') FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%pg_current_snapshot()%'", nil, &n, &pids)
				return n == conns
			})
			tx.Rollback()
		}()
		servicetest.AtOnce(conns, func(i int) { users[i].Get(world(i)).Is(200, servicetest.List()) })
	}
	s.Database.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN (" + pids + ")")
	servicetest.Eventually(t, "all are lost", func() bool { return s.Database.Count("pg_stat_activity WHERE pid IN ("+pids+")") == 0 })
	for i := range 2 {
		users[i].Get(world(i)).Is(200, servicetest.List())
	}
}

// A write whose response is lost is sent once, and nobody says that nothing has happened.
func TestWriteOfUnknownOutcome(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := servicetest.Postgres(t)
			proxy, address := db.ThroughProxy()
			through := *db
			through.URL = address + "&default_query_exec_mode=" + mode
			s := servicetest.Start(t, &through)
			alice := s.SignIn("alice")
			alice.Create("w", "a", servicetest.When)
			proxy.Limit(servicetest.ToClient, 0)
			res := alice.Post("/api/event/w", `{"name":"b","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`)
			created := db.Count("events") - 1
			switch {
			case res.Status == 500 && created == 1:
			case res.Status == 503 && created == 0: // a connection that nobody used for a second has to respond first
				t.Log("it was not sent")
			default:
				t.Errorf("%d %s, and %d events", res.Status, res.Body, created)
			}
		})
	}
}

// isOverloaded checks a 503 that asks the client to come again.
func isOverloaded(t *testing.T, res *servicetest.Response) {
	t.Helper()
	res.IsError(503, "overloaded").SetsNoCookie().HasHeader("Retry-After", "1")
}

// A write that has the name of a user who is renamed meanwhile is repeated, and so often as a transaction. When the user has
// been renamed each time the client is told that nothing has happened.
func TestRenamedEachTime(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	alice, bob := s.SignIn("alice"), s.SignIn("bob")
	joined := alice.Create("w", "x", "2030-01-01T00:00:00Z")
	events, rsvps := s.Database.Count("events"), s.Database.Count("rsvps")
	// The name that the statement has read is not the user's any more when the database checks it.
	s.Database.Exec("CREATE SEQUENCE tries")
	s.Database.Exec(`
		CREATE FUNCTION outdate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			NEW.username = 'user ' || nextval('tries');
			RETURN NEW;
		END $$`)
	s.Database.Exec("CREATE TRIGGER outdate BEFORE INSERT ON rsvps FOR EACH ROW EXECUTE FUNCTION outdate()")
	isOverloaded(t, alice.Post("/api/event/w", `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`))
	isOverloaded(t, bob.Post("/api/event/join/"+joined, ""))
	var n int
	s.Database.Read("SELECT last_value FROM tries", nil, &n)
	servicetest.Is(t, n, 8, "tries of two writes")
	servicetest.Is(t, s.Database.Count("events"), events, "events")
	servicetest.Is(t, s.Database.Count("rsvps"), rsvps, "RSVPs")
	s.Database.Exec("DROP TRIGGER outdate ON rsvps")
	bob.Post("/api/event/join/"+joined, "").Is(200, servicetest.Success)
}
