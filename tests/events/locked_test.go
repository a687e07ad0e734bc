package events

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A row that somebody has locked delays those who need it, and nobody else, for as long as it is locked.
func TestLockedRowDelaysOnlyItsOwn(t *testing.T) {
	const event, user = "SELECT FROM events WHERE name = 'locked' FOR UPDATE", "SELECT FROM users WHERE username = 'bob' FOR UPDATE"
	const session = "SELECT FROM sessions WHERE user_id = (SELECT id FROM users WHERE username = 'bob') FOR UPDATE"
	leave := func(bob *servicetest.Client, id string) *servicetest.Response { return bob.Delete("/api/event/" + id) }
	refresh := func(bob *servicetest.Client, _ string) *servicetest.Response { return bob.Get(servicetest.RefreshPath) }
	for _, test := range []struct {
		name string
		lock string
		need func(bob *servicetest.Client, id string) *servicetest.Response
		same bool // others join and leave the same event meanwhile
	}{
		{"event", event, func(bob *servicetest.Client, id string) *servicetest.Response {
			return bob.Post("/api/event/join/"+id, "")
		}, false},
		{"event of a leave", event, leave, false},
		{"RSVP", "DELETE FROM rsvps WHERE username = 'bob'", leave, true},
		{"user", user, func(bob *servicetest.Client, id string) *servicetest.Response {
			return bob.Post("/api/event/w", servicetest.EventBody)
		}, true},
		{"user of a join", user, func(bob *servicetest.Client, id string) *servicetest.Response {
			return bob.Post("/api/event/join/"+id, "")
		}, true},
		{"session", session, refresh, true},
		{"sign-in", user, func(bob *servicetest.Client, _ string) *servicetest.Response {
			return bob.Post("/sign-in", "username=bob", servicetest.AsForm)
		}, true},
		{"sign-out", session, func(bob *servicetest.Client, _ string) *servicetest.Response { return bob.Post("/sign-out", "") }, true},
		{"sign-out beside tokens that are made up", session, func(bob *servicetest.Client, _ string) *servicetest.Response {
			madeUp := fmt.Sprintf("refreshToken=%0128x", rand.Uint64()) // another one each time
			return bob.Post("/sign-out", "", servicetest.Cookies("refreshToken="+bob.Cookie("refreshToken")+"; "+madeUp))
		}, true},
		{"sign-out everywhere", session, func(bob *servicetest.Client, _ string) *servicetest.Response {
			return bob.Post("/sign-out?everywhere=true", "")
		}, true},
		{"reuse", session, refresh, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := servicetest.Start(t, servicetest.Postgres(t))
			alice, bob := s.SignIn("alice"), s.SignIn("bob")
			locked := alice.Create("w", "locked", servicetest.When)
			if test.name == "RSVP" || test.name == "event of a leave" {
				bob.Post("/api/event/join/"+locked, "").Is(200, servicetest.Success)
			}
			if test.name == "reuse" { // of a refresh token that was spent long ago
				spent := bob.Cookie("refreshToken")
				bob.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
				bob.SetCookie("refreshToken", spent)
				s.Clock.Advance(2 * time.Minute)
			}
			users := make([]*servicetest.Client, 6)
			for i := range users {
				users[i] = s.SignIn(fmt.Sprint("user", i))
			}
			tx := servicetest.BeginTx(t, s.Database, test.lock)
			var all, wait sync.WaitGroup
			defer all.Wait()
			for range s.Options.DBMaxConns + 4 {
				all.Go(func() {
					client := bob.On(s) // which keeps its cookies, whatever the others are told
					switch res := test.need(client, locked); res.Status {
					case 200, 204, 303:
					default:
						res.Is(400, servicetest.InvalidRefresh) // of several with one refresh token
					}
				})
			}
			for i, user := range users {
				wait.Go(func() {
					for n := range 2 {
						id := user.Create("elsewhere", fmt.Sprint(i, n), servicetest.When)
						users[(i+1)%len(users)].Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
						user.Delete("/api/event/"+id).Is(200, servicetest.Success)
						user.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
						user.Get("/api/event/nowhere").Is(200, servicetest.List())
						if test.same {
							user.Post("/api/event/join/"+locked, "").Is(200, servicetest.Success)
							user.Delete("/api/event/"+locked).Is(200, servicetest.Success)
						}
						s.Client().Post("/sign-in", fmt.Sprint("username=new", i, n), servicetest.AsForm).Is(303, "")
					}
				})
			}
			wait.Wait() // all this time the row is locked
			servicetest.NoError(t, tx.Rollback())
		})
	}
}

// A list of several statements waits for who writes one of its tables anew, and then has all events and RSVPs. To a snapshot of before such a
// table is empty. Who keeps it for too long has the list refused.
func TestListEventsBesideRewrite(t *testing.T) {
	t.Parallel()
	rewrite := func(table string) []string {
		return []string{"ALTER TABLE " + table + " ALTER created_at TYPE timestamptz USING created_at + interval '0'"}
	}
	for name, statements := range map[string][]string{
		"events": rewrite("events"), "rsvps": rewrite("rsvps"), "users": rewrite("users"),
		"filled again": {
			"CREATE TEMPORARY TABLE kept_events AS SELECT * FROM events", "CREATE TEMPORARY TABLE kept_rsvps AS SELECT * FROM rsvps", "TRUNCATE events, rsvps",
			"INSERT INTO events OVERRIDING SYSTEM VALUE SELECT * FROM kept_events", "INSERT INTO rsvps SELECT * FROM kept_rsvps",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := func(o *servicetest.Options) { o.DBMaxConns = 1 } // so that the statement is prepared where it runs, and not behind the lock
			s := servicetest.Start(t, servicetest.Postgres(t), one)
			hasty := s.NewInstance(one, func(o *servicetest.Options) { o.DBTimeout = 5 * time.Second })
			alice := s.SignIn("alice")
			servicetest.AddEvents(s, "plaza", 8001, 301, 2031, "")
			s.Database.Exec("INSERT INTO rsvps (event_number, created_at, user_number, username) SELECT e.number, e.created_at, u.number, u.username FROM events e, users u")
			full := alice.Get(servicetest.Plaza)
			tag := full.Header.Get("ETag")
			alice.On(hasty).Get(servicetest.Plaza).Is(200, full.Body)
			s.Database.Exec("UPDATE events SET description = description WHERE number = 1") // so that both read it again
			tx := servicetest.BeginTx(t, s.Database, statements...)
			alice.On(hasty).Get(servicetest.Plaza).IsError(503, "overloaded").HasHeader("Retry-After", "1")
			servicetest.CommitUnder(t, s.Database, tx, 0, func() { alice.Get(servicetest.Plaza).Is(200, full.Body).HasHeader("ETag", tag) })
			for _, c := range []*servicetest.Client{alice, alice.On(hasty)} {
				c.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
				c.Get(servicetest.Plaza).Is(200, full.Body)
			}
		})
	}
}

// A column that a later version adds, or an operator, changes nothing for statements that are prepared already.
func TestColumnIsAdded(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t), func(o *servicetest.Options) { o.DBMaxConns = 1 }) // every statement is prepared there
	everything := func(t *testing.T) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Create("plaza", "chess", servicetest.When)
		form := openForm(t, alice, id)
		form.name = "go"
		isSaved(t, form.send(alice))
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		bob.Get(servicetest.Plaza).Has(200)
		bob.Get("/api/auth/session").Has(200)
		spent := bob.Cookie("refreshToken")
		bob.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
		for _, path := range []string{"/events", "/events/" + id + ".ics", "/sessions"} {
			bob.Get(path).Has(200)
		}
		bob.Submit("/sessions/end-others", "").Has(303)
		bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
		s.Clock.Advance(2 * time.Minute)
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+spent)).Is(400, servicetest.InvalidRefresh)
		press(alice, "cancel", id).Has(303)
		alice.Post("/sign-out?everywhere=true", "").Has(204)
	}
	everything(t)
	for _, table := range []string{"users", "sessions", "events", "rsvps", "changes", "incarnation"} {
		for _, change := range []string{"ADD COLUMN example text DEFAULT 'x'", "DROP COLUMN example"} {
			s.Database.Exec("ALTER TABLE " + table + " " + change)
			s.Run(t, table+" "+change, everything)
		}
	}
}
