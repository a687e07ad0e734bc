package operating

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// The schema refuses times that a cursor could not name, and ids that are none.
func TestSchemaRefusesWhatNoListCanName(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		insert := func(id, scheduledAt string) error {
			_, err := db.TryExec(fmt.Sprintf(`INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
				VALUES ('%s', 'plaza', 'n', '', '%s', '2030-01-01 00:00:00+00:00')`, id, scheduledAt))
			return err
		}
		for i, at := range []string{"2030-01-01 00:00:00+00:00", "2030-01-01 00:00:00.1+00:00", "2030-01-01 00:00:00.999+00:00", "1970-01-01 00:00:00+00:00", "9999-12-31 23:59:59.999+00:00"} {
			servicetest.Is(t, insert(servicetest.IDOf(i), at), nil, "%s", at)
		}
		refused := []string{
			"2030-01-01 00:00:00.0001+00:00", "2030-01-01 00:00:00.000001+00:00", "1969-12-31 23:59:59.999+00:00",
			"10000-01-01 00:00:00+00:00", "2030-02-30 00:00:00+00:00", "infinity",
		}
		if db.Dialect == "sqlite" { // whose times and ids are text, of which each has one spelling
			refused = append(refused, "2030-01-01 00:00:00.10+00:00", "2030-01-01T00:00:00Z", "2030-01-01 00:00:00",
				"2030-01-01 01:00:00+01:00", "2030-01-01 00:00:00.+00:00", "2030-01-01 00:00:00.1 +00:00")
		}
		for _, at := range refused {
			servicetest.True(t, insert(servicetest.IDOf(100), at) != nil, "%s is refused", at)
		}
		for _, id := range []string{"x", "", "00000000-0000-7000-8000-00000000000g"} {
			servicetest.True(t, insert(id, "2030-01-01 00:00:00+00:00") != nil, "the id %q is refused", id)
		}
	})
}

// Whatever form the database or the role prefers for times, lists are read.
func TestDateStyles(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	var name string
	db.Read("SELECT current_database()", nil, &name)
	address := servicetest.Must(url.Parse(db.URL))(t)
	query := address.Query()
	const execMode = "default_query_exec_mode"
	for _, style := range []string{"German", "SQL, DMY", "Postgres"} {
		db.Exec("ALTER DATABASE " + name + " SET datestyle = '" + style + "'")
		for i, mode := range []string{query.Get(execMode), "exec", "simple_protocol"} { // the first is that of the database's URL
			if query.Del(execMode); mode != "" {
				query.Set(execMode, mode)
			}
			address.RawQuery = query.Encode()
			other := *db
			other.URL = address.String()
			s := servicetest.Start(t, &other)
			alice := s.SignIn("alice")
			world := "/api/event/" + url.PathEscape(fmt.Sprint(style, " ", i))
			id := alice.Post(world, servicetest.EventBody).Is(200, servicetest.Success).Header.Get("Event-Id")
			servicetest.Is(t, servicetest.EventIDs(t, alice.Get(world).Body), []string{id}, "%s %s", style, mode)
			alice.Get(world+"?limit=1").HasHeader("Link", "")
		}
	}
}

// A database that cannot hold every text refuses to start.
func TestEncodings(t *testing.T) {
	t.Parallel()
	db := servicetest.PostgresWith(t, " ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
	for _, command := range []string{"migrate", "serve"} {
		if _, stderr, status := p.Run(command); status != 1 || !strings.Contains(stderr, "LATIN1") || !strings.Contains(stderr, "UTF8 is needed") {
			t.Errorf("%s: %d %q", command, status, stderr)
		}
	}
}

// A connection that takes longer to be made than it used to may: as long as DB_TIMEOUT allows.
func TestConnectingTakesItsTime(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, url := db.ThroughProxy()
	behind := *db
	behind.URL = url
	s := servicetest.Start(t, &behind)
	alice := s.SignIn("alice")
	alice.Create("plaza", "n", servicetest.When)
	proxy.Delay(3 * time.Second)
	proxy.Cut() // one that is refused would have others refused for a moment
	servicetest.AtOnce(20, func(int) {
		alice.Get(servicetest.Plaza).Has(200)
	})
}

// serve waits for a database that starts late, and mends by itself after one that went away.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	proxy, through := servicetest.EmptyPostgres(t).ThroughProxy()
	proxy.Down()
	p := servicetest.NewProgram(t, "DATABASE_URL="+through, "DB_TIMEOUT=2s")
	s := p.Serve()
	state := func(want string) {
		t.Helper()
		servicetest.Eventually(t, "the state "+want, func() bool {
			_, text := s.AdminBody("/metrics")
			return strings.Contains(text, `worldevents_readiness{state="`+want+`"} 1`) && strings.Count(text, "\nworldevents_readiness{") == 8
		})
	}
	for range 3 {
		servicetest.Is(t, s.Admin("/livez"), 200, "/livez before the database is there")
		servicetest.Is(t, s.Admin("/readyz"), 503, "/readyz before the database is there")
	}
	state("unavailable")
	servicetest.True(t, s.Metric(`worldevents_start_failures_total{state="unavailable"}`) > 0, "failures of the start are counted")
	proxy.Up()
	s.Readiness(200, servicetest.Soon)
	state("ready")
	cookies := p.Issue("alice")
	proxy.Down()
	s.Readiness(503, servicetest.Soon)
	state("unavailable")
	servicetest.Is(t, s.Admin("/livez"), 200, "/livez with the database away")
	servicetest.Contains(t, s.Is(503, "GET", servicetest.RefreshPath, "", cookies), `"code":"overloaded"`)
	proxy.Up()
	s.Readiness(200, servicetest.Soon)
	s.Is(200, "GET", servicetest.RefreshPath, "", cookies)
}

// Where all connections of the pool lead to a host that has vanished, one call at most takes all its time, and not
// one for each connection.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	const connections = 16
	db := servicetest.Postgres(t)
	patient := servicetest.Start(t, db)
	proxy, address := db.ThroughProxy()
	db.URL = address
	s := servicetest.Start(t, db, func(o *servicetest.Options) { o.DBMaxConns, o.DBTimeout = connections, 6*time.Second })
	alice := patient.SignIn("alice")
	path := "/api/event/join/" + alice.Create("plaza", "n", servicetest.When) // a list may take longer than DB_TIMEOUT
	alice = alice.On(s)
	pool := s.Store.Pools()["postgres"]
	var taken []*sql.Conn
	for range connections {
		taken = append(taken, servicetest.Must(pool.Conn(t.Context()))(t))
	}
	for _, conn := range taken {
		conn.Close()
	}
	proxy.Silence()
	proxy.Up()
	failed := 0
	for i := range connections {
		switch res := alice.Post(path, ""); {
		case res.Status == 200:
		case i == 0 && res.Status == 500: // it was sent on a connection that was used a moment ago
			failed++
		default:
			res.IsError(503, "overloaded")
			failed++
		}
	}
	if failed > 2 { // each call could find four that are silent
		t.Errorf("%d of %d calls failed", failed, connections)
	}
}

// Whoever waits for a connection is counted for no longer than they wait, also if there is none in the end.
func TestWaitingCallsAfterAnOutage(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	alice := servicetest.Start(t, db).SignIn("alice") // with patience
	id := alice.Create("w", "n", servicetest.When)
	proxy, through := db.ThroughProxy()
	db.URL = through
	s := servicetest.Start(t, db, func(o *servicetest.Options) { o.DBTimeout = 2 * time.Second })
	alice = alice.On(s)
	join := func() *servicetest.Response { return alice.Post("/api/event/join/"+id, "") }
	servicetest.Eventually(t, "a join", func() bool { return join().Status == 200 })
	proxy.Down()
	servicetest.AtOnce(20, func(int) {
		if res := join(); res.Status < 500 {
			t.Errorf("%d %s without a database", res.Status, res.Body)
		}
	})
	proxy.Up()
	servicetest.Eventually(t, "a join", func() bool { return join().Status == 200 })
	servicetest.Eventually(t, "nobody waits", func() bool {
		return servicetest.Metric(t, s, `worldevents_database_waiting_calls{pool="postgres"}`) == 0
	})
}
