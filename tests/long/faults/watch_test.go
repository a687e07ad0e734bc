package faults

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// watcher holds a list and waits for news of it, as a page does.
type watcher struct {
	*user
	path string

	mu   sync.Mutex
	etag string
	body string
	bad  string // a response that must not be
}

// watch asks once and takes what comes. It waits for long: each new request would find what the waiting has missed.
func (w *watcher) watch(ctx context.Context) {
	w.mu.Lock()
	etag := w.etag
	w.mu.Unlock()
	res := w.Do("GET", w.path+"?wait=50", "", servicetest.IfNoneMatch(etag), func(r *http.Request) { *r = *r.WithContext(ctx) })
	if res.Err != nil || res.Status == 500 || res.Status == 503 || res.Status == 304 && res.Header.Get("Retry-After") != "" {
		time.Sleep(50 * time.Millisecond) // the instance is away, stops or has no room
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case res.Status == 200 && res.Header.Get("ETag") == etag:
		w.bad = "the list that the client has"
	case res.Status == 200:
		w.etag, w.body = res.Header.Get("ETag"), res.Body
	case res.Status != 304:
		w.bad = res.String()
	}
}

func (w *watcher) has(body string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body == body
}

// The size of a history.
const watchers, worlds, writes, cuts = 40, 8, 150, 4

// audience is watchers of worlds, and writers, on two instances.
type audience struct {
	t         *testing.T
	programs  []*servicetest.Program
	processes []*servicetest.Process
	transport *http.Transport
	watchers  []*watcher
	writers   [][]*user // of each, the same user on both instances

	eventsMu sync.Mutex
	events   []string // of all worlds
}

func world(n int) string { return fmt.Sprintf("world %d", n) }

func newAudience(t *testing.T, one, two *servicetest.Program) *audience {
	t.Helper()
	a := &audience{t: t, programs: []*servicetest.Program{one, two}, transport: newTransport(watchers)}
	t.Cleanup(a.transport.CloseIdleConnections)
	a.processes = []*servicetest.Process{one.ServeReady(), two.ServeReady()}
	for i := range 10 {
		u := signIn(t, a.transport, a.processes[0].URL, fmt.Sprintf("writer %d", i))
		a.writers = append(a.writers, []*user{u, u.on(a.processes[1])})
	}
	for i := range worlds {
		for range 3 {
			a.events = append(a.events, a.writers[0][0].creates(t, world(i)))
		}
	}
	for i := range 20 { // of one user at most an eighth of MAX_WAITING wait
		u := signIn(t, a.transport, a.processes[0].URL, fmt.Sprintf("watcher %d", i))
		u.Timeout = 70 * time.Second
		for j := i; j < watchers; j += 20 {
			w := &watcher{user: u.clone(), path: "/api/event/" + url.PathEscape(world(j%worlds))}
			w.URL = a.processes[j/worlds%len(a.processes)].URL
			a.watchers = append(a.watchers, w)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop := working(len(a.watchers), func(i int) { a.watchers[i].watch(ctx) })
	t.Cleanup(func() {
		cancel()
		stop()
		for _, w := range a.watchers {
			if w.bad != "" {
				t.Errorf("a watcher got %s", w.bad)
			}
		}
	})
	a.settle("at first", a.watchers)
	return a
}

// of is the watchers on an instance.
func (a *audience) of(instance int) (all []*watcher) {
	for _, w := range a.watchers {
		if w.URL == a.processes[instance].URL {
			all = append(all, w)
		}
	}
	return all
}

// write makes a random change through an instance, and reports whether it was acknowledged.
func (a *audience) write(instance int) bool {
	u := a.writers[rand.IntN(len(a.writers))][instance].clone()
	a.eventsMu.Lock()
	event := a.events[rand.IntN(len(a.events))]
	a.eventsMu.Unlock()
	switch n := rand.IntN(10); {
	case n < 2:
		id, _ := u.create(world(rand.IntN(worlds)), "x")
		if id != "" {
			a.eventsMu.Lock()
			a.events = append(a.events, id)
			a.eventsMu.Unlock()
		}
		return id != ""
	case n < 6:
		return u.Do("POST", "/api/event/join/"+event, "").Status == 200
	default:
		return u.Do("DELETE", "/api/event/"+event, "").Status == 200
	}
}

// writeAll writes on all instances at once, until enough is acknowledged, and calls each with the number of those so far.
func (a *audience) writeAll(each func(n int)) {
	var done atomic.Int64
	stop := working(4, func(i int) {
		if a.write(i % len(a.processes)) {
			done.Add(1)
		}
		time.Sleep(rand.N(20 * time.Millisecond))
	})
	a.t.Cleanup(stop)
	servicetest.Within(a.t, 5*time.Minute, "enough is written", func() bool {
		each(int(done.Load()))
		return done.Load() >= writes
	})
	stop()
}

// kill ends an instance as a loss of power would, and restart starts it again.
func (a *audience) kill(i int) { a.processes[i].Kill() }

func (a *audience) restart(i int) { a.processes[i] = a.programs[i].ServeReady() }

// settle waits until each of the watchers has what a plain GET says.
func (a *audience) settle(when string, all []*watcher) {
	a.t.Helper()
	final := make(map[string]string)
	for i := range worlds {
		path := "/api/event/" + url.PathEscape(world(i))
		for instance := 0; final[path] == "" && instance < len(a.processes); instance++ { // one may be dead
			if res := a.writers[0][instance].Do("GET", path, ""); res.Status == 200 {
				final[path] = res.Body
			}
		}
	}
	servicetest.Eventually(a.t, when+" no watcher has an old list", func() bool {
		return !slices.ContainsFunc(all, func(w *watcher) bool { return !w.has(final[w.path]) })
	})
}

// Watchers never end up with an old list, whatever is cut and killed meanwhile, and whoever wrote.
func TestWatchers(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
		watchHistory(t, server, servicetest.NewProgram(t, "DATABASE_URL="+server.URL()))
	})
	t.Run("pgbouncer", func(t *testing.T) {
		server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
		pooled, _ := startPgBouncer(t, server, 10)
		watchHistory(t, server, servicetest.NewProgram(t, "DATABASE_URL=postgres://postgres@"+pooled+"/worldevents?default_query_exec_mode=exec", "DB_MAX_CONNS=5"))
		nobodyListens(t, pooled)
	})
	t.Run("sqlite", func(t *testing.T) { watchHistory(t, nil, servicetest.NewProgram(t)) })
}

// nobodyListens looks at the server connections that PgBouncer has: whoever gets one of them would be told what others
// listen for.
func nobodyListens(t *testing.T, pooled string) {
	t.Helper()
	db := servicetest.Must(sql.Open("pgx", "postgres://postgres@"+pooled+"/worldevents?default_query_exec_mode=exec"))(t)
	defer db.Close()
	for range 8 {
		tx := servicetest.Must(db.Begin())(t) // each keeps a server connection
		defer tx.Rollback()
		var channels int
		servicetest.NoError(t, tx.QueryRow("SELECT count(*) FROM pg_listening_channels()").Scan(&channels))
		servicetest.Is(t, channels, 0, "channels of a shared connection")
	}
}

// watchHistory is random writes while listeners are cut and an instance is killed, and then the worst of ends.
func watchHistory(t *testing.T, server *servicetest.PostgresServer, program *servicetest.Program) {
	t.Helper()
	a := newAudience(t, program, program.Another())
	cut, killed := 0, false
	a.writeAll(func(n int) {
		if server != nil && cut < cuts && n >= (cut+1)*writes/(cuts+1) {
			server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")
			cut++
		}
		if !killed && n >= writes/2 {
			a.kill(0)
			a.restart(0)
			killed = true
		}
	})
	a.settle("after random writes", a.watchers)

	// A write whose instance dies as it is acknowledged, and of which nobody is told.
	for i := range 2 {
		for n := range worlds {
			a.writers[0][i].creates(t, world(n))
		}
		a.kill(i)
		a.settle("after a write and the end of its instance", a.of(1-i))
		a.restart(i)
		a.settle("after its return", a.watchers)
	}
}
