package events

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// gate has all joins wait, for no lock, until there is a row in the table opened.
const gate = `
	CREATE TABLE opened (yes boolean);
	CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		WHILE NEW.username <> 'alice' AND NOT EXISTS (SELECT FROM opened) LOOP PERFORM pg_sleep(0.005); END LOOP;
		RETURN NEW;
	END $$;
	CREATE TRIGGER gate BEFORE INSERT ON rsvps FOR EACH ROW EXECUTE FUNCTION gate()`

// joiners are n users of two instances, each of whom joins an event of their own.
func joiners(s *servicetest.Service, n int) (instances []*servicetest.Service, join func(i int) *servicetest.Response) {
	var users []*servicetest.Client
	var ids []string
	alice, instances := s.SignIn("alice"), []*servicetest.Service{s, s.NewInstance()}
	for i := range n {
		ids = append(ids, alice.Create("w", fmt.Sprint(i), servicetest.When))
		users = append(users, s.SignIn(fmt.Sprint("user", i)).On(instances[i%2]))
	}
	return instances, func(i int) *servicetest.Response { return users[i].Post("/api/event/join/"+ids[i], "") }
}

// joinAll has n users join, of whom one begins at each of two instances, and all others wait for them.
func joinAll(t *testing.T, s *servicetest.Service, n int) []*servicetest.Response {
	instances, join := joiners(s, n)
	s.Database.Exec(gate)
	all := make([]*servicetest.Response, n)
	var wait sync.WaitGroup
	waiting := func(want int) {
		servicetest.Eventually(t, fmt.Sprint(want, " wait"), func() bool {
			waiting := 0.0
			for _, instance := range instances {
				waiting += servicetest.Metric(t, instance, `worldevents_database_waiting_calls{pool="postgres"}`)
			}
			return waiting == float64(want)
		})
	}
	begun := len(instances)
	for i := range begun {
		wait.Go(func() { all[i] = join(i) })
		servicetest.Eventually(t, "a join waits at the gate", func() bool {
			return s.Database.Count("pg_stat_activity WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()") == i+1
		})
		waiting(0)
	}
	wait.Go(func() {
		servicetest.AtOnce(n-begun, func(i int) { all[begun+i] = join(begun + i) })
	})
	waiting(n - begun)
	s.Database.Exec("INSERT INTO opened VALUES (true)")
	wait.Wait()
	return all
}

// Writes that wait for others share a transaction on PostgreSQL, which locks their events in one order for all transactions, and each
// is acknowledged.
func TestJoinsShareTransactions(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	const n = 32
	all := joinAll(t, s, n)
	for _, res := range all {
		res.Is(200, servicetest.Success)
	}
	var transactions, unordered int
	s.Database.Read(`
		SELECT count(DISTINCT xmin), count(*) FILTER (WHERE id < before)
		FROM (SELECT CAST(r.xmin AS text) AS xmin, e.id,
				lag(e.id) OVER (PARTITION BY CAST(r.xmin AS text) ORDER BY CAST(CAST(r.cmin AS text) AS integer)) AS before
			FROM rsvps r JOIN events e ON e.number = r.event_number JOIN users u ON u.number = r.user_number
			WHERE u.username <> 'alice') AS joins`, nil, &transactions, &unordered)
	if transactions > 4 { // one alone, and one of those who wait, at each instance
		t.Errorf("%d transactions of %d joins", transactions, n)
	}
	servicetest.Is(t, unordered, 0, "joins that locked an event after a later one")
}

// A write that the database refuses fails alone: what shares its transaction is done, once.
func TestRefusedAmongOthers(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	s.Database.Exec(`
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.username IN ('user7', 'user20', 'user21') THEN RAISE EXCEPTION 'injected' USING ERRCODE = '22000'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse AFTER INSERT ON rsvps FOR EACH ROW EXECUTE FUNCTION refuse()`)
	all := joinAll(t, s, 32)
	for i, res := range all {
		if i == 7 || i == 20 || i == 21 {
			res.IsError(500, "internal")
		} else {
			res.Is(200, servicetest.Success)
		}
	}
	servicetest.Is(t, s.Database.Count("rsvps r JOIN users u ON u.number = r.user_number WHERE u.username <> 'alice'"), 29, "RSVPs")
}

// A commit that fails, after all statements have succeeded, fails for everybody who shares it.
func TestCommitFailsForAll(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	s.Database.Exec(`
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.username LIKE 'user%' THEN RAISE EXCEPTION 'injected' USING ERRCODE = 'XX000'; END IF;
			RETURN NEW;
		END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON rsvps DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	all := joinAll(t, s, 20)
	for _, res := range all {
		res.IsError(500, "internal")
	}
	servicetest.Is(t, s.Database.Count("rsvps r JOIN users u ON u.number = r.user_number WHERE u.username <> 'alice'"), 0, "RSVPs")
}

// Who asks for unknown events without pause is told so each time, and no others notice: nothing that a client can ask for is an
// error of the database, which would end the transaction of everybody.
func TestUnknownEventsAreNoErrors(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	mallory, gone := s.SignIn("mallory"), s.SignIn("gone")
	gone.Post("/sign-out", "")
	done := make(chan struct{})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					mallory.Post("/api/event/join/01890000-0000-7000-8000-000000000000", "").IsError(404, "event_not_found")
					mallory.Delete("/api/event/01890000-0000-7000-8000-000000000000").IsError(404, "event_not_found")
					gone.Post("/api/event/w", `{"name":"n","description":"","scheduledAt":"2030-01-01T00:00:00Z"}`).IsError(401, "no_token")
				}
			}
		})
	}
	_, join := joiners(s, 32)
	servicetest.AtOnce(32, func(i int) { join(i).Is(200, servicetest.Success) })
	close(done)
	wait.Wait()
	for _, class := range []string{"busy", "timeout", "unavailable", "repeat"} {
		servicetest.Is(t, servicetest.Metric(t, s, `worldevents_database_errors_total{class="`+class+`",pool="postgres"}`), 0, "%s: errors", class)
	}
}

// slowJoins has each join take a while on PostgreSQL, so that those that come meanwhile share transactions.
const slowJoins = `
	CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.004); RETURN NEW; END $$;
	CREATE TRIGGER slow AFTER INSERT ON rsvps FOR EACH ROW EXECUTE FUNCTION slow()`

// Two instances write to the same few rows all the time, and neither waits for the other in a circle. Commands that write many rows may
// do so: then the writes give way, each of which is done in the end, and no command fails.
func TestTransactionsOfTwoInstances(t *testing.T) {
	for _, commands := range []bool{false, true} {
		t.Run(fmt.Sprintf("commands %t", commands), func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t))
			instances := []*servicetest.Service{s, s.NewInstance()}
			alice := s.SignIn("alice")
			var ids []string
			for i := range 4 {
				ids = append(ids, alice.Create("w", fmt.Sprint(i), servicetest.When))
			}
			var fleeting []models.ID // events that are cancelled while others join them
			for i := range 60 {
				fleeting = append(fleeting, idOf(t, alice.Create("w", fmt.Sprint("fleeting ", i), servicetest.When)))
			}
			creator := idOf(t, alice.Session.UserID)
			users := make([]*servicetest.Client, 6)
			for i := range users {
				users[i] = s.SignIn(fmt.Sprint("user", i))
			}
			s.Database.Exec(slowJoins)
			const callers, each = 96, 6
			var wait, operator sync.WaitGroup
			for c := range callers {
				wait.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(c)))
					user := users[c%len(users)].On(instances[c/len(users)%2])
					for range each {
						id := ids[random.IntN(len(ids))]
						some, store := fleeting[random.IntN(len(fleeting))], instances[c/len(users)%2].Store
						switch kind := random.IntN(9); {
						case kind == 0 && c < len(users): // with its own session, or old tokens would come back
							user.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
						case kind < 3:
							user.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
						case kind < 5:
							user.Delete("/api/event/"+id).Is(200, servicetest.Success)
						case kind < 8:
							if res := user.Post("/api/event/join/"+some.String(), ""); res.Status != 200 && res.Status != 404 {
								t.Errorf("%d %s", res.Status, res.Body)
							}
						default:
							if _, err := store.CancelEvent(t.Context(), models.Caller{UserID: creator}, some); err != nil && !errors.Is(err, models.ErrNoEvent) {
								t.Error(err)
							}
						}
					}
				})
			}
			done := make(chan struct{})
			if commands {
				operator.Go(func() { command(t, s.Store, ids[0], done) })
			}
			wait.Wait()
			close(done)
			operator.Wait()
			for _, class := range []string{"repeat", "locked"} {
				n := 0.0
				for _, instance := range instances {
					n += servicetest.Metric(t, instance, `worldevents_database_errors_total{class="`+class+`",pool="postgres"}`)
				}
				t.Logf("%s: %.0f of %d writes", class, n, callers*each)
				if !commands && n > callers*each/20 { // a machine that stands still is longer than a transaction waits for a lock
					t.Errorf("%s: %.0f of %d writes", class, n, callers*each)
				}
			}
		})
	}
}

// command renames users and edits an event until done is closed.
func command(t *testing.T, store *models.Store, event string, done <-chan struct{}) {
	id, _ := models.ParseID(event)
	for n := 0; ; n++ {
		select {
		case <-done:
			t.Logf("%d times three commands", n)
			return
		default:
		}
		name, description := fmt.Sprint("user", n%6), fmt.Sprint(n)
		for _, names := range [][2]string{{name, name + " renamed"}, {name + " renamed", name}} {
			if _, err := store.RenameUser(t.Context(), models.Who{Username: names[0]}, names[1]); err != nil {
				t.Error(err)
			}
		}
		if _, err := store.EditEvent(t.Context(), id, models.EventEdit{Description: &description}); err != nil {
			t.Error(err)
		}
	}
}
