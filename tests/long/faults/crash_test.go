package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// kill -9 under load, again and again: what was acknowledged is there afterwards, what was spent stays spent, and the
// database is sound.
func TestCrash(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		db := servicetest.SQLite(t)
		crash(t, 40, db)
		for query, want := range map[string]string{"PRAGMA integrity_check": "ok", "SELECT count(*) FROM pragma_foreign_key_check": "0"} {
			var got string
			if db.Read(query, nil, &got); got != want {
				t.Errorf("%s: %s", query, got)
			}
		}
	})
	t.Run("postgres", func(t *testing.T) { crash(t, 10, servicetest.NewPostgresServer(t).Database()) })
}

// crasher is one user at work, and what the service has told him.
type crasher struct {
	*user
	world   string
	events  []string          // acknowledged
	joined  map[string]string // by event: "yes", "no", or "unknown" after a request without a response
	spent   []string          // refresh tokens that were replaced
	unknown bool              // whether the current refresh token has been spent
}

func crash(t *testing.T, rounds int, db *servicetest.Database) {
	program := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
	transport := newTransport(8)
	defer transport.CloseIdleConnections()
	p := program.ServeReady()
	plaza := signIn(t, transport, p.URL, "host")
	event := plaza.creates(t, "plaza")
	crashers := make([]*crasher, 8)
	for i := range crashers {
		name := fmt.Sprintf("user%d", i)
		crashers[i] = &crasher{user: signIn(t, transport, p.URL, name), world: "world of " + name, joined: make(map[string]string)}
	}
	acknowledged, refreshed := 0, 0
	for round := range rounds {
		var worked atomic.Int64
		stop := working(len(crashers), func(i int) {
			crashers[i].work(event, i)
			worked.Add(1)
		})
		// Any moment will do, in which the others are at work.
		most := rand.Int64N(100)
		servicetest.Within(t, time.Minute, "requests", func() bool { return worked.Load() >= most })
		p.Kill()
		stop()
		p = program.ServeReady()
		for i, c := range crashers {
			refreshed += len(c.spent)
			c.check(t, event, fmt.Sprintf("user%d", i))
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	for _, c := range crashers {
		acknowledged += len(c.events)
		c.keeps(t, c.world, c.events)
	}
	if acknowledged < rounds || refreshed < rounds {
		t.Errorf("too little happened: %d events, %d refreshes", acknowledged, refreshed)
	}
	t.Logf("killed %d times: %d events and %d refreshes acknowledged, none lost", rounds, acknowledged, refreshed)
	p.Stop()
}

// work sends one request and remembers what came of it.
func (c *crasher) work(event string, i int) {
	switch rand.IntN(3) {
	case 0:
		if id, _ := c.create(c.world, "x"); id != "" {
			c.events = append(c.events, id)
		}
	case 1:
		method, path, then := "POST", "/api/event/join/"+event, "yes"
		if c.joined[event] == "yes" {
			method, path, then = "DELETE", "/api/event/"+event, "no"
		}
		c.joined[event] = "unknown"
		if c.Do(method, path, "").Status == 200 {
			c.joined[event] = then
		}
	case 2:
		if c.unknown {
			return
		}
		old := c.Cookies["refreshToken"]
		if c.Do("GET", "/api/auth/refresh", "").Status == 200 {
			c.spent = append(c.spent, old)
		} else {
			c.unknown = true
		}
	}
}

// check holds what is there against what was acknowledged since the last check.
func (c *crasher) check(t *testing.T, event, name string) {
	t.Helper()
	for _, old := range c.spent[max(0, len(c.spent)-3):] {
		c.clone().Do("GET", "/api/auth/refresh", "", servicetest.Header("Cookie", "refreshToken="+old)).Is(t, 400)
	}
	c.spent = nil
	res := c.Do("GET", "/api/auth/refresh", "")
	if res.Status != 200 && !(c.unknown && res.Status == 400) {
		t.Errorf("the current refresh token is dead: %v", res)
	}
	if res.Status != 200 { // the crash came between the commit and the response
		c.user = signIn(t, c.Transport, c.URL, name)
	}
	c.unknown = false
	if want := c.joined[event]; want == "yes" || want == "no" {
		joined := "no"
		for _, r := range c.list(t, "plaza").Events[0].RSVPs {
			if r.User.Username == name {
				joined = "yes"
			}
		}
		servicetest.Is(t, joined, want, "%s has joined", name)
	}
	for _, id := range c.events[max(0, len(c.events)-3):] {
		c.Do("POST", "/api/event/join/"+id, "").Is(t, 200)
	}
}

// On SQLite every acknowledged write has been given to the disk before: a commit is in the log, and the log is synced. One
// after the other, each write has a sync of its own.
func TestCrashFsync(t *testing.T) {
	t.Parallel()
	const writes = 50
	address, trace := serveTraced(t, "-e", "trace=fsync,fdatasync")
	u := signIn(t, plain, address, "alice")
	synced := func() int { return len(syncOfLog.FindAllString(trace(), -1)) }
	before := synced()
	for range writes / 5 {
		id, res := u.create("w", "x")
		responses := []response{res, u.Do("DELETE", "/api/event/"+id, ""), u.Do("POST", "/api/event/join/"+id, ""),
			u.Do("GET", "/api/auth/refresh", ""), u.Do("DELETE", "/api/event/"+id, "")}
		for _, res := range responses {
			if res.Status != 200 {
				t.Fatal(res)
			}
		}
	}
	servicetest.Eventually(t, fmt.Sprintf("%d syncs of the log", writes), func() bool { return synced()-before >= writes })
	t.Logf("%d acknowledged writes, %d syncs of the log", writes, synced()-before)
}

// Writes at the same time share syncs. Each is written to the log, then a sync of the log begins, and its response is sent
// when that has ended.
func TestCrashFsyncOfConcurrentWrites(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 20
	address, trace := serveTraced(t, "-e", "trace=fsync,fdatasync,pwrite64,write", "-s", "5000")
	transport := newTransport(writers)
	defer transport.CloseIdleConnections()
	var created sync.Map // name of each event by its id
	var all sync.WaitGroup
	for i := range writers {
		u := signIn(t, transport, address, fmt.Sprintf("user%d", i))
		all.Go(func() {
			for n := range each {
				name := fmt.Sprintf("event %d of %d.", n, i)
				id, res := u.create("w", name)
				for res.Status == 503 { // it has waited a second for its turn
					id, res = u.create("w", name)
				}
				if id == "" {
					t.Error(res)
				}
				created.Store(id, name)
			}
		})
	}
	all.Wait()
	servicetest.Eventually(t, "all is in the trace", func() bool {
		return len(headerOfID.FindAllString(trace(), -1)) >= writers*each
	})

	written, sent := make(map[string]int), make(map[string]int) // lines of the trace: of the first time in the log, of the response
	var syncs [][2]int                                          // begin and end
	begun := make(map[string]int)                               // of syncs that run, by thread
	for at, line := range strings.Split(trace(), "\n") {
		thread, call, _ := strings.Cut(line, " ")
		switch call = strings.TrimSpace(call); {
		case syncOfLog.MatchString(call):
			if strings.Contains(call, "<unfinished") {
				begun[thread] = at
			} else {
				syncs = append(syncs, [2]int{at, at})
			}
		case syncResumed.MatchString(call):
			if begin, ok := begun[thread]; ok {
				syncs = append(syncs, [2]int{begin, at})
				delete(begun, thread)
			}
		case writeOfLog.MatchString(call):
			for _, name := range nameOfEvent.FindAllString(call, -1) {
				if _, again := written[name]; !again {
					written[name] = at
				}
			}
		case strings.HasPrefix(call, "write("):
			if id := headerOfID.FindStringSubmatch(call); id != nil {
				sent[id[1]] = at
			}
		}
	}
	n := 0
	created.Range(func(id, name any) bool {
		n++
		begin, logged := written[name.(string)]
		end, responded := sent[id.(string)]
		if !logged || !responded {
			t.Fatalf("%s is in the log: %t, its response: %t", name, logged, responded)
		}
		if !slices.ContainsFunc(syncs, func(s [2]int) bool { return begin < s[0] && s[1] < end }) {
			t.Errorf("%s is written in line %d and acknowledged in line %d, and no sync is between them", name, begin, end)
		}
		return true
	})
	if n != writers*each || len(syncs) >= n {
		t.Errorf("%d of %d writes, %d syncs: they share none", n, writers*each, len(syncs))
	}
	t.Logf("%d writes at the same time, %d syncs of the log", n, len(syncs))
}

var (
	syncOfLog   = regexp.MustCompile(`f(data)?sync\(\d+<[^>]*-wal>`)
	syncResumed = regexp.MustCompile(`^<\.\.\. f(data)?sync resumed>`)
	writeOfLog  = regexp.MustCompile(`^pwrite64\(\d+<[^>]*-wal>`)
	nameOfEvent = regexp.MustCompile(`event \d+ of \d+\.`)
	headerOfID  = regexp.MustCompile(`Event-Id: ([0-9a-f-]{36})`)
)

// serveTraced serves on SQLite under strace with these arguments. It returns the address, and a function that returns what
// strace has written.
func serveTraced(t *testing.T, args ...string) (address string, trace func() string) {
	t.Helper()
	strace := servicetest.Tool(t, "strace")
	program := servicetest.NewProgram(t)
	file := filepath.Join(t.TempDir(), "trace")
	args = append(append([]string{"-f", "-y", "-o", file}, args...), program.Command("serve").Args...)
	command := exec.Command(strace, args...)
	command.Dir, command.Env = program.Dir, append(program.Env, "PATH="+os.Getenv("PATH"))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	ended := servicetest.Must(servicetest.StartCommand(command))(t)
	t.Cleanup(func() {
		syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what is traced outlives a dead strace
		<-ended
	})
	servicetest.Eventually(t, "ready", func() bool {
		return servicetest.NewBrowser("http://"+program.Getenv("ADMIN_ADDR"), plain).Do("GET", "/readyz", "").Status == 200
	})
	return "http://" + program.Getenv("LISTEN_ADDR"), func() string {
		return string(servicetest.Must(os.ReadFile(file))(t))
	}
}
