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
	"syscall"
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
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case res.Status == 200 && res.Err == nil:
		if res.Header.Get("ETag") == etag {
			w.bad = "the list that the client has"
		}
		w.etag, w.body = res.Header.Get("ETag"), res.Body
		return
	case res.Status == 304 && res.Header.Get("Retry-After") == "":
		return
	case res.Status != 0 && res.Status != 200 && res.Status != 304 && res.Status != 500 && res.Status != 503:
		w.bad = res.String()
	}
	w.mu.Unlock()
	time.Sleep(50 * time.Millisecond) // the instance is away, stops or has no room
	w.mu.Lock()
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

func newAudience(t *testing.T, programs ...*servicetest.Program) *audience {
	t.Helper()
	a := &audience{t: t, programs: programs, transport: newTransport(watchers)}
	t.Cleanup(a.transport.CloseIdleConnections)
	for _, p := range programs {
		a.processes = append(a.processes, p.ServeReady())
	}
	for i := range 10 {
		u := signIn(t, a.transport, a.processes[0].URL, fmt.Sprintf("writer %d", i))
		both := []*user{u}
		for _, p := range a.processes[1:] {
			other := u.clone()
			other.URL = p.URL
			both = append(both, other)
		}
		a.writers = append(a.writers, both)
	}
	for i := range worlds {
		for range 3 {
			id, res := a.writers[0][0].create(world(i), "x")
			if id == "" {
				t.Fatal(res)
			}
			a.events = append(a.events, id)
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
	wait := workers(len(a.watchers), ctx.Done(), func(i int) { a.watchers[i].watch(ctx) })
	t.Cleanup(func() {
		cancel()
		wait()
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
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for done.Load() < writes {
				if a.write(i % len(a.processes)) {
					done.Add(1)
				} else {
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			each(int(done.Load()))
		}
	}
}

// kill ends an instance as a loss of power would.
func (a *audience) kill(i int) {
	a.processes[i].Signal(syscall.SIGKILL)
	a.processes[i].Wait(10 * time.Second)
}

func (a *audience) restart(i int) {
	a.processes[i] = a.programs[i].ServeReady()
}

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
	servicetest.Eventually(a.t, 20*time.Second, when+" no watcher has an old list", func() bool {
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
	db, err := sql.Open("pgx", "postgres://postgres@"+pooled+"/worldevents?default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 8 {
		tx, err := db.Begin() // each keeps a server connection
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		var channels int
		if err := tx.QueryRow("SELECT count(*) FROM pg_listening_channels()").Scan(&channels); err != nil || channels > 0 {
			t.Errorf("a shared connection listens to %d channels, %v", channels, err)
		}
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
			if id, res := a.writers[0][i].create(world(n), "the last"); id == "" {
				t.Fatal(res)
			}
		}
		a.kill(i)
		a.settle("after a write and the end of its instance", a.of(1-i))
		a.restart(i)
		a.settle("after its return", a.watchers)
	}
}
