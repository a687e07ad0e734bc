package faults

import (
	"bufio"
	"encoding/json"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// While a copy is held it has all that was ever acknowledged, since nobody writes, no command either: what writes is 503, and changes no
// cookie. What only reads goes on. The end of the hold lets all go on.
func TestCopyHold(t *testing.T) {
	t.Parallel()
	db, target := servicetest.SQLite(t), servicetest.EmptyPostgres(t)
	servicetest.Seed(db, 1000, 1000, 50_000) // so that the copy takes a while
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_TIMEOUT=2s")
	s := p.ServeReady()
	current, writer := p.Issue("alice"), p.Issue("carol")
	expired := strings.TrimSpace(p.MustRun("session", "issue", "bob", "--expired"))
	id := s.Ask("POST", servicetest.Plaza, servicetest.EventBody, current).Header.Get("Event-Id")

	var acknowledged atomic.Int64
	acknowledged.Store(1)
	stop := working(4, func(int) {
		if status, _ := s.Do("POST", servicetest.Plaza, servicetest.EventBody, writer); status == 200 {
			acknowledged.Add(1)
		}
	})
	servicetest.Eventually(t, "somebody writes", func() bool { return acknowledged.Load() > 20 })

	hold := p.Command("copy", "--hold", "--to", target.URL)
	stdout := servicetest.Must(hold.StdoutPipe())(t)
	log := new(servicetest.Log)
	hold.Stderr = log
	ended := servicetest.Must(servicetest.StartCommand(hold))(t)
	t.Cleanup(func() { hold.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var copied servicetest.Copied
	if err != nil || json.Unmarshal([]byte(line), &copied) != nil {
		t.Fatalf("%v %q %s", err, line, log)
	}
	// Requests that wait, or were refused meanwhile, are over.
	stop()
	events := target.Count("events WHERE world_id = ?", "plaza")
	if n := acknowledged.Load(); int64(events) != n || db.Count("events") != copied.Rows["events"] {
		t.Errorf("%d events were acknowledged, and the copy has %d: %v", n, events, copied.Rows)
	}

	for _, path := range []string{servicetest.Plaza, servicetest.SessionPath, "/sessions"} {
		s.Is(200, "GET", path, "", current)
	}
	servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
	for _, test := range []struct {
		method, path, body, cookies string
		with                        []servicetest.RequestOption
	}{
		{"POST", servicetest.Plaza, servicetest.EventBody, current, nil},
		{"POST", "/api/event/join/" + id, "", writer, nil},
		{"DELETE", "/api/event/" + id, "", current, nil},
		{"GET", servicetest.RefreshPath, "", current, nil},
		{"GET", servicetest.SessionPath, "", expired, nil},
		{"POST", "/sign-out", "", current, []servicetest.RequestOption{servicetest.AsForm}},
		{"POST", "/sign-in", "username=dave", "", []servicetest.RequestOption{servicetest.AsForm}},
		{"POST", "/sign-in", "username=alice", "", []servicetest.RequestOption{servicetest.AsForm}},
	} {
		res := s.Ask(test.method, test.path, test.body, test.cookies, test.with...)
		if res.Status != 503 || res.Header.Get("Retry-After") == "" || len(res.Header.Values("Set-Cookie")) != 0 {
			t.Errorf("%s %s: %v %v, want 503", test.method, test.path, res, res.Header)
		}
	}
	p.Fails("busy", "user", "add", "eve")
	// Another start on the file, as after a crash: it reads.
	another := p.Another().ServeReady()
	another.Is(200, "GET", servicetest.Plaza, "", current)

	hold.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it holds on")
	}
	if !hold.ProcessState.Success() || !strings.Contains(log.String(), "audit") {
		t.Errorf("%v %s", hold.ProcessState, log)
	}
	for _, path := range []string{servicetest.RefreshPath, "/api/event/w"} {
		s.Is(200, "GET", path, "", current)
	}
	s.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, writer)
	p.With("DATABASE_URL="+target.URL).Fails("only a SQLite file can be held", "copy", "--hold", "--to", "sqlite:other.db")
}
