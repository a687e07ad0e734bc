package commands

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Whom a command has blocked or removed since a backup stays so when it is restored and the log is replayed, and so do names and
// removed events. Lines may be of before the backup, and replayed twice.
func TestReplayAudit(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		log := filepath.Join(p.Dir, "audit.log")
		formats := []string{"json", "text"}
		run := func(args ...string) (stdout string) {
			t.Helper()
			formats[0], formats[1] = formats[1], formats[0]
			stdout, stderr := p.With("LOG_FORMAT=" + formats[0]).Succeeds(args...)
			appendTo(t, log, "Jan  2 03:04:05 host worldevents[7]: "+stderr)
			return stdout
		}
		for subject, name := range map[string]string{"1": "paul", "2": "mary", "3": "eve", "4": "zoe"} {
			external(t, s, subject, name)
		}
		alice := s.SignIn("alice")
		spam, kept := alice.Create("plaza", "spam", servicetest.When), alice.Create("plaza", "kept", servicetest.When)
		s.SignIn("ann")
		s.SignIn("bea")
		s.SignIn("mallory \" msg=audit")
		spammer, cleaned := s.SignIn("spammer"), s.SignIn("cleaned")
		spammer.Create("spam", "n", servicetest.When)
		cleaned.Create("spam", "n", servicetest.When)
		run("event", "remove", "--creator", "cleaned") // and what they create afterwards is theirs
		good := cleaned.Create("plaza", "good", servicetest.When)
		bad := cleaned.Create("elsewhere", "bad", servicetest.When)
		of := s.SignIn("of spammer").Create("spam", "n", servicetest.When)
		run("user", "block", "zoe")
		run("user", "block", "alice")
		run("user", "unblock", "alice")

		restored := servicetest.EmptyDatabases[s.Database.Dialect](t)
		run("copy", "--to", restored.URL)

		for subject, name := range map[string]string{"5": "late", "6": "later", "7": "latest"} {
			external(t, s, subject, name)
		}
		run("user", "block", "paul")
		run("user", "unblock", "zoe")
		run("user", "remove", "eve", "--block")
		run("user", "remove", "mary")
		run("user", "block", "late")
		run("user", "remove", "later", "--block")
		run("user", "block", "latest")
		run("user", "remove", "latest")
		run("user", "rename", "ann", "anna \"x\" = é")
		run("user", "rename", "bea", "ann")
		run("user", "block", "mallory \" msg=audit")
		run("event", "remove", spam)
		run("event", "edit", kept, "--name", "Kept")
		run("event", "remove", "--creator", "cleaned", "--world", "elsewhere", "--since", "2020-01-01T00:00:00Z")
		run("event", "remove", "--creator", "of spammer")
		run("user", "remove", "of spammer")
		run("user", "remove", "spammer", "--events")
		appendTo(t, log, `{"time":"2030-01-02T03:04:05Z","level":"INFO","msg":"request","path":"/\"msg\":\"audit\"","action":"user remove","user":"`+alice.Session.UserID+"\"}\n"+
			`time=2030-01-02T03:04:05Z level=INFO msg=request path="/ msg=audit action=\"user remove\" user=`+alice.Session.UserID+"\"\n")

		q := p.With("DATABASE_URL=" + restored.URL)
		before := q.MustRun("user", "list")
		lines := q.MustRun("replay-audit", "--dry-run", "audit.log")
		servicetest.Is(t, strings.Count(lines, `"action":`), 22, "lines of a dry run: %s", lines)
		servicetest.Contains(t, lines, `"os_user":`)
		servicetest.Is(t, q.MustRun("user", "list"), before, "the users after a dry run")
		stdout, stderr := q.Succeeds("replay-audit", "audit.log")
		servicetest.Is(t, stdout, `{"repeated":15}`+"\n", "printed")
		servicetest.Is(t, strings.Count(stderr, "msg=audit action="), 15, "audit lines: %s", stderr)
		servicetest.Contains(t, stderr, "repeated=true")
		servicetest.Is(t, q.MustRun("replay-audit", log), `{"repeated":0}`+"\n", "again")

		after := servicetest.Start(t, restored)
		for subject, want := range map[string]error{"1": models.ErrBlocked, "2": nil, "3": models.ErrBlocked, "4": nil, "5": models.ErrBlocked, "6": models.ErrBlocked, "7": nil} {
			_, err := trySignIn(after, subject, "new")
			servicetest.Is(t, errors.Is(err, want), true, "subject %s signs in: %v, want %v", subject, err, want)
		}
		users := q.MustRun("user", "list")
		for _, name := range []string{`"alice"`, `"anna \"x\" = é"`, `"ann"`} {
			servicetest.Contains(t, users, `"username":`+name)
		}
		for _, name := range []string{"mary", "eve", "bea"} {
			servicetest.Lacks(t, users, `"username":"`+name+`"`)
		}
		events := q.MustRun("event", "list", "--world", "plaza")
		servicetest.Lacks(t, events, spam)
		servicetest.Contains(t, events, kept)
		servicetest.Contains(t, events, good)
		servicetest.Is(t, strings.Count(q.MustRun("world", "list"), "events"), 1, "worlds with events: %s and %s are gone", bad, of)
	})
}

// What was created before the time that a removal was given stays in the replay, too, however little before.
func TestReplayAuditSince(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		s.SignIn("alice").Create("plaza", "n", servicetest.When)
		s.Database.Exec("UPDATE events SET created_at = '2026-02-01 00:00:00.0002+00:00'")
		q := restored(t, s, p)
		for _, format := range []string{"text", "json"} {
			s.SignIn("alice").Create("plaza", "later", servicetest.When)
			_, line, _ := p.With("LOG_FORMAT="+format).Run("event", "remove", "--creator", "alice", "--since", "2026-02-01T00:00:00.0005Z")
			log := filepath.Join(p.Dir, format)
			appendTo(t, log, line)
			servicetest.Is(t, q.MustRun("replay-audit", log), `{"repeated":0}`+"\n", "%s after %s", format, line)
		}
	})
}

// What a user has cancelled on /events since a backup stays so, too: the line is in the log of serve, in both formats and whatever
// LOG_LEVEL says.
func TestReplayAuditOfUsers(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice := s.SignIn("alice")
		ids := []string{alice.Create("plaza", "a", servicetest.When), alice.Create("plaza", "b", servicetest.When)}
		kept := alice.Create("plaza", "kept", servicetest.When)
		q := restored(t, s, p)
		for i, format := range []string{"text", "json"} {
			log, served := cancel(t, p, alice, format, ids[i])
			if res := served.Ask("POST", "/events/leave", "id="+kept, "refreshToken="+alice.Cookie("refreshToken"), servicetest.AsForm); res.Status != 204 && res.Status != 409 {
				t.Fatal(res)
			}
			appendTo(t, log, served.Log.String())
			servicetest.Is(t, q.MustRun("replay-audit", log), `{"repeated":1}`+"\n", "%s after %s", format, served.Log)
			events := q.MustRun("event", "list", "--world", "plaza")
			servicetest.Lacks(t, events, ids[i])
			servicetest.Contains(t, events, kept)
		}
	})
}

// With the key of an event that they cancelled users create another with the same id. A replay removes the one that was cancelled from
// an old backup, and leaves the other in a new one.
func TestReplayAuditKeyUsedAgain(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice := s.SignIn("alice")
		create := func() string {
			t.Helper()
			return alice.Post(servicetest.Plaza, servicetest.EventBody, servicetest.Header("Idempotency-Key", "raid")).Is(200, servicetest.Success).Header.Get("Event-Id")
		}
		id := create()
		first := restored(t, s, p)
		logs := make(map[string]string)
		for _, format := range []string{"text", "json"} {
			logs[format], _ = cancel(t, p, alice, format, id)
			servicetest.Is(t, create(), id, "the id of the next one")
		}
		second := restored(t, s, p)
		for format, log := range logs {
			servicetest.Is(t, second.MustRun("replay-audit", log), `{"repeated":0}`+"\n", "%s", format)
			servicetest.Contains(t, second.MustRun("event", "list", "--world", "plaza"), id)
		}
		servicetest.Is(t, first.MustRun("replay-audit", logs["json"]), `{"repeated":1}`+"\n", "the old backup")
		servicetest.Lacks(t, first.MustRun("event", "list", "--world", "plaza"), id)
	})
}

// A log that cannot be read whole changes nothing.
func TestReplayAuditRefused(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	p.MustRun("user", "add", "alice")
	_, line, _ := p.With("LOG_FORMAT=json").Run("user", "block", "alice")
	p.MustRun("user", "unblock", "alice")
	for _, test := range []struct{ log, words string }{
		{line + line[:len(line)-3] + "\n", "line 2: an audit line that is damaged"},
		{line + strings.Replace(line, `"user":"0`, `"user":"x`, 1), "line 2: "},
		{line + `time=2030-01-02T03:04:05Z level=INFO msg=audit action="user block" user=` + "\n", "line 2: "},
		{line + `time=2030-01-02T03:04:05Z level=INFO msg=audit action="user remove" user=` + servicetest.IDOf(1) + " identity=12\n", "line 2: identity must be 64"},
		{line + `time=2030-01-02T03:04:05Z level=INFO msg=audit action="event remove" user=` + servicetest.IDOf(1) + " world=plaza\n", "line 2: an audit line that is damaged"}, // and was one with --since
		{line + strings.Repeat("x", 2<<20), "too long"},
	} {
		servicetest.NoError(t, os.WriteFile(filepath.Join(p.Dir, "audit.log"), []byte(test.log), 0o600))
		p.Fails(test.words, "replay-audit", "audit.log")
	}
	p.Fails("no such file", "replay-audit", "none.log")
	p.MustRun("user", "block", "alice") // it says nothing for one who is blocked
}

// A name that somebody else has meanwhile is said, after everything else is done.
func TestReplayAuditNameTaken(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		s.SignIn("alice")
		s.SignIn("bob")
		_, line, _ := p.Run("user", "rename", "alice", "carol")
		p.MustRun("user", "rename", "carol", "alice")
		p.MustRun("user", "rename", "bob", "carol")
		appendTo(t, filepath.Join(p.Dir, "audit.log"), line)
		p.Fails(`to "carol": rename user: the username is taken`, "replay-audit", "audit.log")
	})
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	f := servicetest.Must(os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	_, err := f.WriteString(text)
	servicetest.NoError(t, errors.Join(err, f.Close()))
}

// restored is the program on a backup that p makes now.
func restored(t *testing.T, s *servicetest.Service, p *servicetest.Program) *servicetest.Program {
	t.Helper()
	to := servicetest.EmptyDatabases[s.Database.Dialect](t)
	p.MustCopy(to.URL)
	return p.With("DATABASE_URL=" + to.URL)
}

// cancel has a user cancel an event on a service whose log has a format. It returns a file with that log.
func cancel(t *testing.T, p *servicetest.Program, c *servicetest.Client, format, id string) (log string, served *servicetest.Process) {
	t.Helper()
	served = p.Another().With("LOG_LEVEL=error", "LOG_FORMAT="+format).ServeReady()
	served.Ask("POST", "/events/cancel", "id="+id, "refreshToken="+c.Cookie("refreshToken"), servicetest.AsForm).Is(t, 204)
	served.Says(id, 1)
	log = filepath.Join(t.TempDir(), "audit.log")
	appendTo(t, log, "Jan  2 03:04:05 host worldevents[7]: "+served.Log.String())
	return log, served
}
