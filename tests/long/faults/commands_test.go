package faults

import (
	"path/filepath"
	"strings"
	"testing"

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
	servicetest.AddEvents(&servicetest.Service{Database: db}, "many", 3, 12_000, 2030, "")
	join(db, "e.world_id = 'many' AND u.username <> 'bob'")
	state := func() string { return p.MustRun("user", "list") + p.MustRun("event", "list", "--world", "many") }
	before, list := state(), bob.Do("GET", "/api/event/plaza", "").Body
	changes := [][]string{
		{"user", "rename", "alice", strings.Repeat("é", 100)}, {"user", "remove", "carol"}, {"event", "prune", "--before", "2035-01-01T00:00:00Z", "--world", "many"},
	}
	// Room that the log has already would be used again.
	servicetest.Eventually(t, "the log is empty", func() bool {
		db.TryExec("PRAGMA wal_checkpoint(TRUNCATE)")
		return walSize(t, db) == 0
	})
	free := fill(t, dir)
	for _, args := range changes {
		p.Fails("full", args...)
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
	s.Readiness(200, servicetest.Soon)
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
	p.Fails("worldevents: copy: ", "copy", "--to", standby.URL())
}
