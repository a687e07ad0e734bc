//go:build faults

package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// kill -9 under load, again and again: what was acknowledged is there afterwards, what was spent stays spent, and the
// database is sound.
func TestCrash(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db := servicetest.SQLite(t)
		crash(t, 100, db)
		for query, want := range map[string]string{"PRAGMA integrity_check": "ok", "SELECT count(*) FROM pragma_foreign_key_check": "0"} {
			var got string
			if db.Read(query, nil, &got); got != want {
				t.Errorf("%s: %s", query, got)
			}
		}
	})
	t.Run("postgres", func(t *testing.T) { crash(t, 20, servicetest.NewPostgresServer(t).Database()) })
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
	event, res := plaza.create("plaza", "x")
	if event == "" {
		t.Fatal(res)
	}
	crashers := make([]*crasher, 8)
	for i := range crashers {
		name := fmt.Sprintf("user%d", i)
		crashers[i] = &crasher{user: signIn(t, transport, p.URL, name), world: "world of " + name, joined: make(map[string]string)}
	}
	acknowledged, refreshed := 0, 0
	for round := range rounds {
		stop := make(chan struct{})
		wait := workers(len(crashers), stop, func(i int) { crashers[i].work(event, i) })
		time.Sleep(time.Duration(30+rand.IntN(150)) * time.Millisecond) // any moment will do
		p.Signal(syscall.SIGKILL)
		p.Wait(5 * time.Second)
		close(stop)
		wait()
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
		there := make(map[string]bool)
		for _, e := range c.list(t, c.world).Events {
			there[e.ID] = len(e.RSVPs) == 1
		}
		for _, id := range c.events {
			if !there[id] {
				t.Errorf("event %s was acknowledged and is not there, or without its creator", id)
			}
		}
	}
	if acknowledged < rounds || refreshed < rounds {
		t.Errorf("too little happened: %d events, %d refreshes", acknowledged, refreshed)
	}
	t.Logf("killed %d times: %d events and %d refreshes acknowledged, none lost", rounds, acknowledged, refreshed)
	p.Signal(syscall.SIGINT)
	p.Wait(15 * time.Second)
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
		if c.do(method, path, "").status == 200 {
			c.joined[event] = then
		}
	case 2:
		if c.unknown {
			return
		}
		old := c.cookies["refreshToken"]
		if c.do("GET", "/api/auth/refresh", "").status == 200 {
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
		if res := c.with("refreshToken", old).do("GET", "/api/auth/refresh", ""); res.status != 400 {
			t.Errorf("a spent refresh token lives: %v", res)
		}
	}
	c.spent = nil
	res := c.do("GET", "/api/auth/refresh", "")
	if res.status != 200 && !(c.unknown && res.status == 400) {
		t.Errorf("the current refresh token is dead: %v", res)
	}
	if res.status != 200 { // the crash came between the commit and the response
		c.user = signIn(t, c.http.Transport, c.url, name)
	}
	c.unknown = false
	if want := c.joined[event]; want == "yes" || want == "no" {
		joined := "no"
		for _, r := range c.list(t, "plaza").Events[0].RSVPs {
			if r.User.Username == name {
				joined = "yes"
			}
		}
		if joined != want {
			t.Errorf("%s: joined is %s, acknowledged was %s", name, joined, want)
		}
	}
	for _, id := range c.events[max(0, len(c.events)-3):] {
		if res := c.do("POST", "/api/event/join/"+id, ""); res.status != 200 {
			t.Errorf("event %s was acknowledged and is not there: %v", id, res)
		}
	}
}

// On SQLite every acknowledged write has been given to the disk before: a commit is in the log, and the log is synced. That
// writes at the same time share a sync, which begins after all of them, is TestBatch's.
func TestCrashFsync(t *testing.T) {
	strace := need(t, "strace")
	program := servicetest.NewProgram(t)
	trace := filepath.Join(t.TempDir(), "trace")
	command := exec.Command(strace, append([]string{"-f", "-y", "-e", "trace=fsync,fdatasync", "-o", trace}, program.Command("serve").Args...)...)
	command.Dir, command.Env = program.Dir, append(program.Env, "PATH="+os.Getenv("PATH"))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what is traced outlives a dead strace
		command.Wait()
	})
	address := "http://" + program.Getenv("LISTEN_ADDR")
	servicetest.Eventually(t, 20*time.Second, "ready", func() bool {
		res := (&user{url: "http://" + program.Getenv("ADMIN_ADDR"), http: plain}).do("GET", "/readyz", "")
		return res.status == 200
	})
	u := signIn(t, plain.Transport, address, "alice")
	synced := func() int {
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		return len(syncOfLog.FindAllString(string(text), -1))
	}
	// One after the other, each write has a sync of its own.
	const writes = 50
	before := synced()
	for range writes / 5 {
		id, res := u.create("w", "x")
		responses := []response{res, u.do("DELETE", "/api/event/"+id, ""), u.do("POST", "/api/event/join/"+id, ""),
			u.do("GET", "/api/auth/refresh", ""), u.do("DELETE", "/api/event/"+id, "")}
		for _, res := range responses {
			if res.status != 200 {
				t.Fatal(res)
			}
		}
	}
	servicetest.Eventually(t, 5*time.Second, fmt.Sprintf("%d syncs of the log", writes), func() bool { return synced()-before >= writes })
	t.Logf("%d acknowledged writes, %d syncs of the log", writes, synced()-before)
}

var syncOfLog = regexp.MustCompile(`f(data)?sync\(\d+<[^>]*-wal>`)
