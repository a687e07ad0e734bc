package faults

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// watchSize is how much a history of watchers does.
type watchSize struct{ watchers, worlds, writes, cuts, kills int }

// watchRuns are the histories of a test: a small one, or as many whole ones as WATCH_RUNS says.
func watchRuns() (size watchSize, runs int) {
	if runs, _ = strconv.Atoi(os.Getenv("WATCH_RUNS")); runs > 0 {
		return watchSize{watchers: 200, worlds: 20, writes: 1000, cuts: 20, kills: 5}, runs
	}
	return watchSize{watchers: 40, worlds: 8, writes: 150, cuts: 4, kills: 1}, 1
}

// watcher holds a list and waits for news of it, as a page does.
type watcher struct {
	*user
	path string

	mu   sync.Mutex
	etag string
	body string
	at   time.Time // when it came
	bad  string    // a response that must not be
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
		w.etag, w.body, w.at = res.Header.Get("ETag"), res.Body, time.Now()
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

func (w *watcher) has(body string) (ok bool, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body == body, w.at
}

// audience is watchers of worlds, and writers, on two instances.
type audience struct {
	t         *testing.T
	size      watchSize
	programs  []*servicetest.Program
	processes []*servicetest.Process
	transport *http.Transport
	watchers  []*watcher
	writers   [][]*user // of each, the same user on both instances

	eventsMu sync.Mutex
	events   []string // of all worlds
}

func world(n int) string { return fmt.Sprintf("world %d", n) }

func newAudience(t *testing.T, size watchSize, programs ...*servicetest.Program) *audience {
	t.Helper()
	a := &audience{t: t, size: size, programs: programs, transport: newTransport(size.watchers)}
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
	for i := range size.worlds {
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
		for j := i; j < size.watchers; j += 20 {
			w := &watcher{user: u.clone(), path: "/api/event/" + url.PathEscape(world(j%size.worlds))}
			w.URL = a.processes[j/size.worlds%len(a.processes)].URL
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
		id, _ := u.create(world(rand.IntN(a.size.worlds)), "x")
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
			for done.Load() < int64(a.size.writes) {
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
func (a *audience) settle(when string, watchers []*watcher) {
	a.t.Helper()
	final := make(map[string]string)
	for i := range a.size.worlds {
		path := "/api/event/" + url.PathEscape(world(i))
		for instance := 0; final[path] == "" && instance < len(a.processes); instance++ { // one may be dead
			if res := a.writers[0][instance].Do("GET", path, ""); res.Status == 200 {
				final[path] = res.Body
			}
		}
	}
	stale := len(watchers)
	for deadline := time.Now().Add(20 * time.Second); stale > 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		stale = 0
		for _, w := range watchers {
			if ok, _ := w.has(final[w.path]); !ok {
				stale++
			}
		}
	}
	if stale > 0 {
		for _, w := range watchers {
			if ok, at := w.has(final[w.path]); !ok {
				a.t.Logf("%s%s is stale since %v", w.URL, w.path, time.Since(at))
			}
		}
		a.t.Fatalf("%s: %d of %d watchers are stale", when, stale, len(watchers))
	}
}

// ofListeners selects the connections that listen.
const ofListeners = "FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"

// Watchers never end up with an old list, whatever is cut and killed meanwhile, and whoever wrote.
func TestWatchers(t *testing.T) {
	t.Parallel()
	size, runs := watchRuns()
	for range runs {
		t.Run("postgres", func(t *testing.T) {
			server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
			program := servicetest.NewProgram(t, "DATABASE_URL="+server.URL())
			watchHistory(t, size, server, program, program.Another())
		})
		t.Run("pgbouncer", func(t *testing.T) {
			server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
			pooled, _ := startPgBouncer(t, server, 10)
			program := servicetest.NewProgram(t, "DATABASE_URL=postgres://postgres@"+pooled+"/worldevents?default_query_exec_mode=exec", "DB_MAX_CONNS=5")
			watchHistory(t, size, server, program, program.Another())
			nobodyListens(t, pooled)
		})
		t.Run("sqlite", func(t *testing.T) {
			program := servicetest.NewProgram(t)
			watchHistory(t, size, nil, program, program.Another())
		})
	}
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

// watchHistory is random writes while listeners are cut and instances are killed, and then the worst of ends.
func watchHistory(t *testing.T, size watchSize, server *servicetest.PostgresServer, programs ...*servicetest.Program) {
	t.Helper()
	a := newAudience(t, size, programs...)
	cuts, kills := 0, 0
	a.writeAll(func(n int) {
		if server != nil && cuts < size.cuts && n >= (cuts+1)*size.writes/(size.cuts+1) {
			server.Exec("SELECT pg_terminate_backend(pid) " + ofListeners)
			cuts++
		}
		if kills < size.kills && n >= (kills+1)*size.writes/(size.kills+1) {
			a.kill(kills % 2)
			a.restart(kills % 2)
			kills++
		}
	})
	a.settle("after random writes", a.watchers)

	// A write whose instance dies as it is acknowledged, and of which nobody is told.
	for i := range 2 {
		for n := range a.size.worlds {
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

// told is how often an instance was told that another has written.
func (a *audience) told(instance int) float64 {
	a.t.Helper()
	return gauge(a.t, a.processes[instance], "worldevents_hints_received_total")
}

// Writes of which no instance is told are found by asking.
func TestWatchersWithoutHints(t *testing.T) {
	t.Parallel()
	size := watchSize{watchers: 100, worlds: 50}
	t.Run("postgres", func(t *testing.T) {
		server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
		program := servicetest.NewProgram(t, "DATABASE_URL="+server.URL())
		withoutHints(t, newAudience(t, size, program, program.Another()), server.Database())
	})
	t.Run("sqlite", func(t *testing.T) {
		db := servicetest.SQLite(t)
		program := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		withoutHints(t, newAudience(t, size, program, program.Another()), db)
	})
}

func withoutHints(t *testing.T, a *audience, db *servicetest.Database) {
	t.Helper()
	for i := range 3 {
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond) // at any moment between two questions
		for n := i; n < a.size.worlds; n += 10 {
			db.Exec("UPDATE events SET name = ? WHERE world_id = ?", fmt.Sprint("renamed ", i), world(n))
		}
		a.settle("after writes behind the service's back", a.watchers)
	}
}

// Instances whose listening connections are silent for ever find what others write, notice, and listen again.
func TestWatchersWhileListenersAreSilent(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "fsync=off", "synchronous_commit=off")
	program := servicetest.NewProgram(t, "DATABASE_URL="+server.URL())
	a := newAudience(t, watchSize{watchers: 80, worlds: 20}, program, program.Another())
	db := server.Database()
	// isTold has an instance write until the other one is told of it.
	isTold := func(when string) {
		t.Helper()
		for i := range a.processes {
			before := a.told(1 - i)
			servicetest.Eventually(t, 20*time.Second, when+" a hint arrives", func() bool {
				a.write(i)
				return a.told(1-i) > before
			})
		}
		a.settle(when, a.watchers)
	}
	isTold("at first")
	var pids []int
	rows, err := db.DB.Query("SELECT pid " + ofListeners)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		pids = append(pids, 0)
		rows.Scan(&pids[len(pids)-1])
	}
	rows.Close()
	if len(pids) != 2 {
		t.Fatalf("%d connections listen", len(pids))
	}
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	for !a.write(0) || !a.write(1) {
	}
	a.settle("while nobody is told", a.watchers)
	isTold("once all listen again")
}
