package events

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"worldevents/tests/servicetest"
)

// Nobody but the owner of the tables has a trigger of their own call the functions that mark changes. These run with the rights of the
// owner, and so does a cast that they need for the columns of a stranger's table.
func TestTriggerFunctionsOfStrangers(t *testing.T) {
	t.Parallel()
	for function, trigger := range map[string]string{
		"mark_event":  "AFTER INSERT ON events FOR EACH ROW",
		"mark_join":   "AFTER INSERT ON events FOR EACH ROW",
		"mark_leave":  "AFTER DELETE ON events FOR EACH ROW",
		"mark_events": "AFTER INSERT ON events REFERENCING NEW TABLE AS changed FOR EACH STATEMENT",
		"mark_rsvps":  "AFTER INSERT ON events REFERENCING NEW TABLE AS changed FOR EACH STATEMENT",
		"await_rsvps": "BEFORE UPDATE ON events FOR EACH ROW",
	} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t))
			s.SignIn("alice").Create("plaza", "n", servicetest.When)                          // whose number the functions compare
			conn := servicetest.Must(s.Database.Stranger("stranger").DB.Conn(t.Context()))(t) // temporary objects are its own
			defer conn.Close()
			for _, statement := range []string{
				"CREATE TYPE pg_temp.bait AS (n bigint)",
				"CREATE FUNCTION pg_temp.as_text(pg_temp.bait) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'runs as %', current_user; END $$",
				"CREATE FUNCTION pg_temp.as_number(pg_temp.bait) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'runs as %', current_user; END $$",
				"CREATE CAST (pg_temp.bait AS text) WITH FUNCTION pg_temp.as_text(pg_temp.bait) AS ASSIGNMENT",
				"CREATE CAST (pg_temp.bait AS bigint) WITH FUNCTION pg_temp.as_number(pg_temp.bait) AS IMPLICIT",
				"CREATE TEMPORARY TABLE events (world_id pg_temp.bait, event_number pg_temp.bait, number pg_temp.bait)",
			} {
				servicetest.Must(conn.ExecContext(t.Context(), statement))(t)
			}
			_, err := conn.ExecContext(t.Context(), "CREATE TRIGGER trap "+trigger+" EXECUTE FUNCTION public."+function+"()")
			if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "42501" {
				return
			}
			t.Errorf("the trigger is made: %v", err)
			for _, statement := range []string{"INSERT INTO events VALUES (ROW(1), ROW(1), ROW(1))", "UPDATE events SET number = number", "DELETE FROM events"} {
				_, err := conn.ExecContext(t.Context(), statement)
				t.Logf("%s: %v", statement, err)
			}
		})
	}
}

// The service needs no more rights than the documents say, whatever it is asked for.
func TestServiceAsRole(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t).As("service"))
	servicetest.NoError(t, s.Store.Migrate(t.Context()))
	alice, id, tag := servicetest.WatcherOf(s)
	news := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag)
	s.SignIn("bob").Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
	servicetest.Come(t, news).Is(200, servicetest.List(servicetest.Listed(id, "a", "", servicetest.When, "alice", "bob")))
	servicetest.CrowdOf(t, s, "user", "crowded", 1, 300)
	servicetest.UseAll(t, s)
}
