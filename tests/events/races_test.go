package events

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
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

// However joins and leaves fall together, all get 200, and each user's last call is what stays.
func TestConcurrentJoinsAndLeaves(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s, s.NewInstance()}
		alice := s.SignIn("alice")
		ids := []string{alice.Create("plaza", "a", servicetest.When), alice.Create("plaza", "b", servicetest.When)}
		var wait sync.WaitGroup
		const users = 10
		joined := make([][2]bool, users)
		for u := range users {
			user := s.SignIn(fmt.Sprint("user", u)).On(instances[u%2])
			wait.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(u)))
				for range 25 {
					e := random.IntN(2)
					if random.IntN(2) == 0 {
						user.Post("/api/event/join/"+ids[e], "").Is(200, servicetest.Success)
						joined[u][e] = true
					} else {
						user.Delete("/api/event/"+ids[e]).Is(200, servicetest.Success)
						joined[u][e] = false
					}
					if random.IntN(5) == 0 {
						user.Get(servicetest.Plaza)
					}
				}
			})
		}
		wait.Wait()
		for u, events := range joined {
			for e, want := range events {
				got := s.Database.Count("rsvps r JOIN events e ON e.number = r.event_number WHERE e.id = ? AND username = ?", ids[e], fmt.Sprint("user", u)) == 1
				if got != want {
					t.Errorf("user%d, event %d: joined %v, want %v", u, e, got, want)
				}
			}
		}
	})
}

// Several instances that start on one empty database migrate it once.
func TestConcurrentMigrations(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(testing.TB) *servicetest.Database{"postgres": servicetest.EmptyPostgres, "sqlite": servicetest.EmptySQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := make(t)
			program := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
			commands := []*exec.Cmd{}
			for range 5 {
				command := program.Command("migrate")
				command.Stderr = new(strings.Builder)
				commands = append(commands, command)
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
			}
			for _, command := range commands {
				if err := command.Wait(); err != nil {
					t.Errorf("%v: %s", err, command.Stderr)
				}
			}
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
				if !strings.Contains(host.Get(servicetest.Plaza).Body, `"`+name+` renamed"`) {
					t.Error("not listed by the new name")
				}
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
	if _, err := tx.Exec(strings.Replace(change, "?", "$1", 1), what); err != nil {
		t.Fatal(err)
	}
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
		var seen [3]atomic.Int64 // in none, in A, in both
		deadline := time.Now().Add(20 * time.Second)
		done := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			defer close(done)
			for n := 0; (n < 10 || seen[0].Load() < 10 || seen[2].Load() < 10) && time.Now().Before(deadline); n++ {
				bob.Post("/api/event/join/"+first, "").Is(200, servicetest.Success)
				bob.Post("/api/event/join/"+second, "").Is(200, servicetest.Success)
				bob.Delete("/api/event/"+second).Is(200, servicetest.Success)
				bob.Delete("/api/event/"+first).Is(200, servicetest.Success)
			}
		})
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if _, err := s.Store.RenameUser(t.Context(), models.Who{Username: []string{"alice", "anna"}[n%2]}, []string{"anna", "alice"}[n%2]); err != nil {
					t.Error(err)
				}
			}
		})
		for range 4 {
			reader := s.SignIn(fmt.Sprintf("reader %p", new(int)))
			all.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					list := reader.Get(servicetest.Plaza)
					if list.Status != 200 || list.Header.Get("ETag") == "" {
						t.Errorf("%d, ETag %q", list.Status, list.Header.Get("ETag"))
						return
					}
					names := servicetest.Usernames(t, list.Body)
					a, b := names[0], names[len(names)-1]
					inA, inB := slices.Contains(a, "bob"), slices.Contains(b, "bob")
					switch {
					case inB && !inA:
						t.Errorf("bob is in B alone")
						return
					case a[0] != b[0]:
						t.Errorf("alice has the names %s and %s", a[0], b[0])
						return
					case inB:
						seen[2].Add(1)
					case inA:
						seen[1].Add(1)
					default:
						seen[0].Add(1)
					}
				}
			})
		}
		all.Wait()
		t.Logf("lists with bob in none %d, in A %d, in both %d", seen[0].Load(), seen[1].Load(), seen[2].Load())
	})
}
