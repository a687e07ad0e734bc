package events

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Of any number of refreshes of one token, through either operation and over two instances, exactly one wins.
func TestConcurrentRefreshesHaveOneWinner(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s, s.NewInstance()}
		alice := s.SignIn("alice").Session
		cookies := servicetest.Cookies("token=" + s.Expired(alice.UserID) + "; refreshToken=" + alice.RefreshToken)
		var mu sync.Mutex
		var winners []*servicetest.Response
		servicetest.AtOnce(100, func(i int) {
			path, won, lost := servicetest.RefreshPath, servicetest.Success, servicetest.InvalidRefresh
			if i%2 == 0 {
				path, won, lost = servicetest.SessionPath, servicetest.Authenticated, servicetest.SessionInvalidRefresh
			}
			// What is refused as too much at once has spent nothing.
			res := instances[i/2%2].Client().Get(path, cookies)
			if res.Status != 200 {
				res.Is(400, lost).SetsNoCookie()
				return
			}
			res.Is(200, won)
			mu.Lock()
			winners = append(winners, res)
			mu.Unlock()
		})
		if len(winners) != 1 {
			t.Fatalf("%d winners", len(winners))
		}
		pair := winners[0]
		// The winner's cookies work, and the race has revoked nothing.
		s.Client().Get(servicetest.Plaza, servicetest.Cookies("token="+pair.Cookie("token").Value)).Is(200, servicetest.List())
		s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+pair.Cookie("refreshToken").Value)).Is(200, servicetest.Success)
	})
}

// Several instances that start on one empty database migrate it once.
func TestConcurrentMigrations(t *testing.T) {
	t.Parallel()
	for name, make := range servicetest.EmptyDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := make(t)
			program := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
			servicetest.AtOnce(5, func(int) {
				if _, stderr, status := program.Run("migrate"); status != 0 {
					t.Errorf("%d %s", status, stderr)
				}
			})
			servicetest.Start(t, db).SignIn("alice").Create("plaza", "n", servicetest.When)
		})
	}
}

// A rename or removal that commits while a statement of the same user waits for it is followed, never an error of ours.
func TestEventsWhileUsersChange(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	host := s.SignIn("host")
	for _, test := range []struct {
		change string
		status int
		code   string
	}{
		{"UPDATE users SET username = username || ' renamed' WHERE username = ?", 200, ""},
		{"DELETE FROM users WHERE username = ?", 401, "invalid_token"},
	} {
		for _, operation := range []string{"create", "join"} {
			name := operation + " " + test.code
			s.Run(t, name, func(t *testing.T) {
				guest := s.SignIn(name)
				event := host.Create("plaza", "n", servicetest.When)
				path, body := "/api/event/join/"+event, ""
				if operation == "create" {
					path, body = servicetest.Plaza, `{"name":"n","description":"","scheduledAt":"`+servicetest.When+`"}`
				}
				res := during(t, s, test.change, name, func() *servicetest.Response { return guest.Post(path, body) })
				if test.status != 200 {
					res.IsError(test.status, test.code)
					return
				}
				res.Is(200, servicetest.Success)
				servicetest.Contains(t, host.Get(servicetest.Plaza).Body, `"`+name+` renamed"`)
			})
		}
	}
	event := host.Create("plaza", "n", servicetest.When)
	during(t, s, "DELETE FROM events WHERE id = CAST(? AS uuid)", event, func() *servicetest.Response {
		return s.SignIn("late").Post("/api/event/join/"+event, "")
	}).IsError(404, "event_not_found")
}

// during runs a change, makes a request that waits for it, and commits.
func during(t *testing.T, s *servicetest.Service, change, what string, request func() *servicetest.Response) (res *servicetest.Response) {
	t.Helper()
	tx := servicetest.BeginTx(t, s.Database)
	servicetest.Must(tx.Exec(strings.Replace(change, "?", "$1", 1), what))(t)
	servicetest.CommitUnder(t, s.Database, tx, 0, func() { res = request() })
	return res
}

// A list with an ETag is of one moment, however many statements it takes: who joins A, then B, and leaves B, then A, is never seen
// in B alone, and whoever is renamed has one name in all of it. Events before and after A and B, and RSVPs of A, make it long.
func TestListIsOfOneMoment(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		first := alice.Create("plaza", "A", "2031-01-01T00:00:00.000Z")
		servicetest.AddEvents(s, "plaza", 0, 300, 2032, "")
		second := alice.Create("plaza", "B", "2033-01-01T00:00:00.000Z")
		var none, both atomic.Int64 // lists with bob in none, and in both
		deadline := time.Now().Add(20 * time.Second)
		done, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			defer cancel()
			for n := 0; (n < 10 || none.Load() < 10 || both.Load() < 10) && time.Now().Before(deadline); n++ {
				bob.Post("/api/event/join/"+first, "").Is(200, servicetest.Success)
				bob.Post("/api/event/join/"+second, "").Is(200, servicetest.Success)
				bob.Delete("/api/event/"+second).Is(200, servicetest.Success)
				bob.Delete("/api/event/"+first).Is(200, servicetest.Success)
			}
		})
		all.Go(func() {
			names := []string{"alice", "anna", "alice"}
			for n := 0; done.Err() == nil; n = 1 - n {
				if _, err := s.Store.RenameUser(t.Context(), models.Who{Username: names[n]}, names[n+1]); err != nil {
					t.Error(err)
				}
			}
		})
		for n := range 4 {
			reader := s.SignIn(fmt.Sprint("reader ", n))
			all.Go(func() {
				for done.Err() == nil && !t.Failed() {
					list := reader.Get(servicetest.Plaza)
					if list.Status != 200 || list.Header.Get("ETag") == "" {
						t.Errorf("%d, ETag %q", list.Status, list.Header.Get("ETag"))
						return
					}
					names := servicetest.Usernames(t, list.Body)
					a, b := names[0], names[len(names)-1]
					servicetest.Is(t, b[0], a[0], "the name of alice in B")
					switch inA, inB := slices.Contains(a, "bob"), slices.Contains(b, "bob"); {
					case inB && !inA:
						t.Error("bob is in B alone")
					case inB:
						both.Add(1)
					case !inA:
						none.Add(1)
					}
				}
			})
		}
		all.Wait()
		t.Logf("lists with bob in none %d, in both %d", none.Load(), both.Load())
	})
}
