package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// A disk that is full while the operator changes users and events: each command says so in one line with status 1 and changes
// nothing, reading goes on, and so does everything once there is room.
func TestCommandsOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "32768")
	file := filepath.Join(dir, "full.db")
	p := servicetest.NewProgram(t, "DATABASE_URL=sqlite:"+file)
	s := p.ServeReady()
	transport := newTransport(1)
	defer transport.CloseIdleConnections()
	bob := signIn(t, transport, s.URL, "bob")
	event, _ := bob.create("plaza", "Chess")
	db := servicetest.OpenSQLite(t, file)
	for _, name := range []string{"alice", "carol"} { // they have joined so much that changing them takes more than the log has room for
		p.MustRun("user", "add", name)
	}
	db.Exec(`INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
		SELECT printf('00000000-0000-7000-0003-%012d', i), 'many', NULL, 'n', '', '2030-01-01 00:00:00+00:00', '2030-01-01 00:00:00+00:00' FROM n`)
	db.Exec(`INSERT INTO rsvps (event_number, user_number, username, created_at)
		SELECT e.number, u.number, u.username, '2030-01-01 00:00:00+00:00' FROM events e, users u WHERE e.world_id = 'many' AND u.username <> 'bob'`)
	state := func() string { return p.MustRun("user", "list") + p.MustRun("event", "list", "--world", "many") }
	before, list := state(), bob.Do("GET", "/api/event/plaza", "").Body
	fails := func(args ...string) {
		t.Helper()
		stdout, stderr, status := p.Run(args...)
		if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "worldevents: ") || !strings.Contains(stderr, "full") {
			t.Errorf("%q: %d %q %q", args, status, stdout, stderr)
		}
	}
	changes := [][]string{
		{"user", "rename", "alice", strings.Repeat("é", 100)}, {"user", "remove", "carol"}, {"event", "prune", "--before", "2035-01-01T00:00:00Z", "--world", "many"},
	}
	// Room that the log has already would be used again.
	emptyLog := func() {
		t.Helper()
		servicetest.Eventually(t, 20*time.Second, "the log is empty", func() bool {
			db.TryExec("PRAGMA wal_checkpoint(TRUNCATE)")
			info, err := os.Stat(file + "-wal")
			return err == nil && info.Size() == 0
		})
	}
	emptyLog()
	free := fill(t, dir)
	for _, args := range changes {
		fails(args...)
	}
	// What is small may find room: it is done and says so, or neither.
	for _, args := range [][]string{{"event", "edit", event, "--description", "d"}, {"event", "edit", event, "--description", ""}} {
		stdout, stderr, status := p.Run(args...)
		if status == 0 && (stdout == "" || stderr != "" && !servicetest.IsAudit(stderr)) || status != 0 && (stdout != "" || strings.Count(stderr, "\n") != 1) {
			t.Errorf("%q: %d %q %q", args, status, stdout, stderr)
		}
	}
	servicetest.Is(t, state(), before, "state")
	free()
	s.Readiness(200, 20*time.Second)
	bob = signIn(t, transport, s.URL, "bob")
	servicetest.Is(t, bob.Do("GET", "/api/event/plaza", "").Body, list, "the list")

	for _, args := range changes { // a long one says how far it is
		if _, stderr, status := p.Run(args...); status != 0 {
			t.Errorf("%q: %d %s", args, status, stderr)
		}
	}
	servicetest.Is(t, db.Count("rsvps r WHERE username NOT IN (SELECT username FROM users WHERE number = r.user_number)"), 0, "RSVPs have another name than their user")
}

// A standby is as good a source as its primary, although nothing can be written there.
func TestCopyOfAStandby(t *testing.T) {
	t.Parallel()
	primary := servicetest.NewPostgresServer(t)
	p := servicetest.NewProgram(t, "DATABASE_URL="+primary.URL())
	p.MustRun("demo")
	standby := primary.Standby("standby")
	want, _ := copyMeasured(t, p, servicetest.EmptySQLite(t).URL)
	for _, to := range []*servicetest.Database{servicetest.EmptySQLite(t), servicetest.EmptyPostgres(t)} {
		got, _ := copyMeasured(t, p.With("DATABASE_URL="+standby.URL()), to.URL)
		if got.Checksum != want.Checksum || got.Rows["rsvps"] != 6 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	stdout, stderr, status := p.Run("copy", "--to", standby.URL())
	if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "worldevents: copy: ") {
		t.Errorf("to a standby: %d %q %q", status, stdout, stderr)
	}
}
