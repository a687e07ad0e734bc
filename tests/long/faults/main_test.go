// Package faults breaks what the service stands on, and what it talks to, and proves that nothing is lost and nobody
// gets in. It takes minutes and needs tools: make test-faults.
package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.MainLong(m)) }

// databases are the migrated ones that a service may have.
var databases = []func(testing.TB) *servicetest.Database{servicetest.SQLite, servicetest.Postgres}

// join has users u join events e, behind the service's back: all those of which a condition is true.
func join(db *servicetest.Database, condition string) {
	db.Exec(`INSERT INTO rsvps (event_number, user_number, username, created_at)
		SELECT e.number, u.number, u.username, e.created_at FROM events e, users u WHERE ` + condition)
}

// under returns the program as a command of the shell runs it, whose last arguments are the program and its own.
func under(t *testing.T, program *servicetest.Program, command string) *servicetest.Program {
	t.Helper()
	script := filepath.Join(t.TempDir(), "worldevents")
	text := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", command, servicetest.Binary(t))
	servicetest.WriteExecutable(t, script, text)
	return program.At(script)
}

type response = servicetest.Result

// user is a browser at work: it holds the two cookies of one session.
type user struct{ *servicetest.Browser }

// newTransport keeps connections for as many requests at once.
func newTransport(conns int) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: conns, DisableCompression: true}
}

// signIn signs a user in over HTTP on a service in development, once its database is in time.
func signIn(t *testing.T, transport http.RoundTripper, address, name string) *user {
	t.Helper()
	u := &user{servicetest.NewBrowser(address, transport)}
	var res response
	servicetest.Eventually(t, name+" signs in", func() bool {
		res = u.SignIn(name)
		return res.Status < 500
	})
	if res.Status != 303 || len(u.Cookies) != 2 {
		t.Fatalf("sign in: %v", res)
	}
	return u
}

// clone is another browser with the same cookies.
func (u *user) clone() *user { return &user{u.Clone()} }

// on is the same browser at another instance.
func (u *user) on(p *servicetest.Process) *user {
	other := u.clone()
	other.URL = p.URL
	return other
}

// create creates an event and returns its id, "" when that failed.
func (u *user) create(world, name string) (string, response) {
	res := u.Do("POST", "/api/event/"+url.PathEscape(world), fmt.Sprintf(`{"name":%q,"description":"","scheduledAt":"2030-01-02T03:04:05Z"}`, name))
	if res.Status != 200 {
		return "", res
	}
	return res.Header.Get("Event-Id"), res
}

// creates is create, which must succeed.
func (u *user) creates(t *testing.T, world string) (id string) {
	t.Helper()
	id, res := u.create(world, "x")
	res.Is(t, 200)
	return id
}

// writesAgain waits until a create succeeds, and returns for how long.
func (u *user) writesAgain(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	servicetest.Eventually(t, "a write succeeds", func() bool {
		id, _ := u.create("w", "again")
		return id != ""
	})
	return time.Since(begin)
}

// list is the body of a list.
type list struct {
	Events []struct {
		ID    string
		RSVPs []struct{ User struct{ Username string } }
	}
}

func (u *user) list(t *testing.T, world string) (l list) {
	t.Helper()
	res := u.Do("GET", "/api/event/"+url.PathEscape(world), "")
	if res.Status != 200 || json.Unmarshal([]byte(res.Body), &l) != nil {
		t.Fatalf("list %s: %v", world, res)
	}
	return l
}

// keeps fails the test unless all of these events are in the world, which were acknowledged, and somebody has joined each: who made it.
func (u *user) keeps(t *testing.T, world string, acknowledged []string) {
	t.Helper()
	there := make(map[string]bool)
	for _, e := range u.list(t, world).Events {
		there[e.ID] = len(e.RSVPs) > 0
	}
	for _, id := range acknowledged {
		if !there[id] {
			t.Errorf("event %s was acknowledged and is lost, or its creator is", id)
		}
	}
}

// working runs work(0) to work(n-1) at once, each again and again until stop is called, which waits for them.
func working(n int, work func(i int)) (stop func()) {
	var all sync.WaitGroup
	var ended atomic.Bool
	for i := range n {
		all.Go(func() {
			for !ended.Load() {
				work(i)
			}
		})
	}
	return func() {
		ended.Store(true)
		all.Wait()
	}
}

// yardstick measures how long the machine has others wait: requests that need no database, and whatever else a test measures.
// On a machine that does much else what is promised within a time gets ten times as long in addition.
type yardstick struct {
	slowest slowest
	stop    func()
}

// slowest is the longest of the times that are recorded.
type slowest struct{ atomic.Int64 }

func (s *slowest) record(took time.Duration) {
	for most := s.Load(); int64(took) > most && !s.CompareAndSwap(most, int64(took)); most = s.Load() {
	}
}

func (s *slowest) time() time.Duration { return time.Duration(s.Load()) }

func newYardstick(t *testing.T, u *user, more ...func()) *yardstick {
	y := new(yardstick)
	u = u.clone()
	all := append([]func(){func() {
		u.Do("GET", "/api/auth/session", "").Is(t, 200)
	}}, more...)
	y.stop = working(len(all), func(i int) {
		begin := time.Now()
		all[i]()
		y.slowest.record(time.Since(begin))
		time.Sleep(5 * time.Millisecond)
	})
	t.Cleanup(y.stop)
	return y
}

// within fails the test if something took longer than promised.
func (y *yardstick) within(t *testing.T, promised, took time.Duration, what any) {
	t.Helper()
	if took > promised+10*y.slowest.time() {
		t.Errorf("%v promised, took %v, while the machine had others wait for up to %v: %v", promised, took, y.slowest.time(), what)
	}
}

// isBusy reports whether the machine has had others wait for so long that a timeout says little of the database.
func (y *yardstick) isBusy() bool { return y.slowest.time() > 100*time.Millisecond }

// plain opens a connection for each request.
var plain = &http.Transport{DisableKeepAlives: true}
