package sessions

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// refreshAt refreshes with a token and returns the response.
func refreshAt(s *servicetest.Service, token string) *servicetest.Response {
	return s.Client().Get(servicetest.RefreshPath, servicetest.Cookies("refreshToken="+token))
}

// spentAt fails the test unless a refresh token is refused.
func spentAt(s *servicetest.Service, token string) {
	refreshAt(s, token).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
}

// Each of five current tokens of one user is used a hundred times at once: each has one winner.
func TestConcurrentRefreshesOfFiveSessions(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s, s.NewInstance(upTo(5))}
		var tokens, next [5]string
		for i := range tokens {
			tokens[i] = s.SignIn("alice").Session.RefreshToken
		}
		var winners [5]atomic.Int64
		servicetest.AtOnce(150, func(i int) {
			res := refreshAt(instances[i/5%2], tokens[i%5])
			if res.Status != 200 {
				res.Is(400, servicetest.InvalidRefresh).SetsNoCookie()
				return
			}
			if winners[i%5].Add(1) == 1 {
				next[i%5] = res.Is(200, servicetest.Success).Cookie("refreshToken").Value
			}
		})
		for i := range winners {
			servicetest.Is(t, winners[i].Load(), 1, "session %d: winners", i)
		}
		servicetest.Is(t, s.Database.Count("sessions WHERE revoked_at IS NOT NULL"), 0, "sessions were revoked")
		for _, token := range next {
			refreshAt(s, token).Is(200, servicetest.Success)
		}
	}, upTo(5))
}

// Many sign-ins of a new name make one user, whose last sessions count.
func TestConcurrentSignInsKeepTheLimit(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s, s.NewInstance(upTo(3))}
		clients := make([]*servicetest.Client, 50)
		servicetest.AtOnce(len(clients), func(i int) {
			clients[i] = instances[i%2].Client()
			clients[i].Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, "")
		})
		alive := 0
		for _, client := range clients {
			if client.Get(servicetest.RefreshPath).Status == 200 {
				alive++
			}
		}
		servicetest.Is(t, alive, 3, "sessions that can be refreshed")
		servicetest.Is(t, s.Database.Count("users"), 1, "users")
	}, upTo(3))
}

// Once a revocation is acknowledged, nothing of the session works, whatever refreshes ran meanwhile.
func TestConcurrentRevocationAndRefresh(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s, s.NewInstance()}
		id := s.SignIn("host").Create("plaza", "n", servicetest.When)
		for round := range 12 {
			alice := s.SignIn("alice").Session
			var acknowledged atomic.Bool
			var last sync.WaitGroup
			tokens, jwts := []string{alice.RefreshToken}, []string{alice.Token}
			last.Go(func() {
				for i := 0; ; i++ {
					late := acknowledged.Load()
					res := refreshAt(instances[i%2], tokens[len(tokens)-1])
					if res.Status != 200 {
						res.Is(400, servicetest.InvalidRefresh).SetsNoCookie()
						return
					}
					if late {
						t.Error("refreshed after the revocation was acknowledged")
						return
					}
					tokens, jwts = append(tokens, res.Cookie("refreshToken").Value), append(jwts, res.Cookie("token").Value)
				}
			})
			time.Sleep(time.Duration(round) * time.Millisecond) // for another interleaving
			switch round % 3 {
			case 0: // with a token that has probably been spent
				s.Client().Post("/sign-out", "", servicetest.Cookies("refreshToken="+alice.RefreshToken)).Is(204, "")
			case 1:
				s.Client().Post("/sign-out", "", servicetest.Cookies("token="+alice.Token)).Is(204, "")
			case 2:
				user := servicetest.Must(models.ParseID(alice.UserID))(t)
				servicetest.Must(s.Store.RevokeUser(t.Context(), user, models.ID{}))(t)
			}
			acknowledged.Store(true)
			last.Wait()
			for i := range tokens {
				spentAt(instances[i%2], tokens[i])
				instances[i%2].Client().Post("/api/event/join/"+id, "", servicetest.Cookies("token="+jwts[i])).IsError(401, "invalid_token")
			}
		}
	})
}

// Users of one world ask for it at once, so that they share readings, and write to it. As soon as a sign-out has been
// acknowledged, no operation of that session that begins later succeeds, and the others go on.
func TestConcurrentRevocationAndEvents(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s, s.NewInstance()}
		host := s.SignIn("host")
		id := host.Create("plaza", "n", servicetest.When)
		tag := host.Get(servicetest.Plaza).Header.Get("ETag")
		const users = 10
		var wait sync.WaitGroup
		var done atomic.Bool
		for u := range users {
			user := s.SignIn(fmt.Sprint("user", u)).Session
			var begun, acknowledged atomic.Bool
			cookies := servicetest.Cookies("token=" + user.Token)
			for i, operation := range []struct{ method, path, body, tag string }{
				{"GET", servicetest.Plaza, "", ""},
				{"GET", servicetest.Plaza, "", tag},
				{"GET", servicetest.Plaza, "", "*"},
				{"POST", "/api/event/join/" + id, "", ""},
				{"DELETE", "/api/event/" + id, "", ""},
				{"POST", "/api/event/other", servicetest.EventBody, ""},
			} {
				wait.Go(func() {
					for late := false; !late && !(u%2 == 1 && done.Load()); {
						late = acknowledged.Load()
						res := instances[(u+i)%2].Client().Do(operation.method, operation.path, operation.body, cookies, servicetest.IfNoneMatch(operation.tag))
						mayFail := begun.Load() // the sign-out had begun before the operation ended
						switch {
						case res.Status == 401 && mayFail:
							res.IsError(401, "invalid_token")
						case late || res.Status != 200 && res.Status != 304:
							t.Errorf("operation %d of user %d, signed out: %v: %d %s", i, u, late, res.Status, res.Body)
							return
						}
					}
				})
			}
			if u%2 == 1 {
				continue // stays signed in until all others are out
			}
			wait.Go(func() {
				time.Sleep(time.Duration(50+20*u) * time.Millisecond) // one after the other
				begun.Store(true)
				s.Client().Post("/sign-out", "", servicetest.Cookies("refreshToken="+user.RefreshToken)).Is(204, "")
				acknowledged.Store(true)
				if u == users-2 {
					done.Store(true)
				}
			})
		}
		wait.Wait()
	})
}

// Sign-ins, refreshes and sign-outs of one user, of one session or of all, lock the same rows in different orders. None
// of them fails for that.
func TestConcurrentSessionsOfOneUser(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		instances := []*servicetest.Service{s, s.NewInstance(upTo(10))}
		s.AddUser("alice")
		var mu sync.Mutex
		var tokens []string
		add := func(res *servicetest.Response) {
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, res.Cookie("refreshToken").Value)
		}
		some := func(i, n int) string { // cookies with n of the last tokens
			mu.Lock()
			defer mu.Unlock()
			var cookies []string
			for j := range min(n, len(tokens)) {
				cookies = append(cookies, "refreshToken="+tokens[len(tokens)-1-(i*7+j*5)%min(12, len(tokens))])
			}
			return strings.Join(cookies, "; ")
		}
		servicetest.AtOnce(100, func(i int) {
			c := instances[i/6%2].Client()
			switch {
			case i%3 == 0:
				add(c.Post("/sign-in", "username=alice", servicetest.AsForm).Is(303, ""))
			case i%25 == 1:
				c.Post("/sign-out?everywhere=true", "", servicetest.Cookies(some(i, 1))).Is(204, "")
			case i%10 == 2:
				c.Post("/sign-out", "", servicetest.Cookies(some(i, 3))).Is(204, "")
			default:
				if res := c.Get(servicetest.RefreshPath, servicetest.Cookies(some(i, 1))); res.Status == 200 {
					add(res)
				} else if res.Status != 400 {
					t.Errorf("%d %s", res.Status, res.Body)
				}
			}
		})
		servicetest.True(t, s.Database.Count("sessions WHERE token_hash IS NOT NULL") <= 10, "the limit of sessions is kept")
		servicetest.Is(t, s.Database.Count("sessions WHERE token_hash IS NOT NULL AND revoked_at IS NOT NULL"), 0, "revoked sessions that can be refreshed")
	}, upTo(10))
}
