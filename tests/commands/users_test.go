package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// eachBeside runs test with a service on both databases, and the program for commands beside it.
func eachBeside(t *testing.T, test func(t *testing.T, s *servicetest.Service, p *servicetest.Program), changes ...servicetest.Option) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		test(t, s, servicetest.NewProgram(t, "DATABASE_URL="+s.Database.URL))
	}, changes...)
}

// Where a command takes a name it takes an id of a user instead, as logs have it. A name is never read as an id.
func TestPeopleByID(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		add := func(name string) (id string) {
			var user struct{ ID string }
			servicetest.NoError(t, json.Unmarshal([]byte(p.MustRun("user", "add", name)), &user))
			return user.ID
		}
		alice := add("alice")
		namesake := add(alice) // who is called like her id
		p.MustRun("session", "issue", "--user-id", alice)
		p.MustRun("session", "issue", alice)
		for _, args := range []string{"user show", "session list --json"} {
			byID := p.MustRun(append(strings.Fields(args), "--user-id", alice)...)
			if byName := p.MustRun(append(strings.Fields(args), "alice")...); byID != byName {
				t.Errorf("%s: %s by id, and %s by name", args, byID, byName)
			}
			if other := p.MustRun(append(strings.Fields(args), alice)...); other == byID {
				t.Errorf("%s: the name is taken for an id: %s", args, other)
			}
		}
		is := func(who, words string) {
			t.Helper()
			servicetest.Contains(t, p.MustRun("user", "show", "--user-id", who), words)
		}
		p.MustRun("user", "block", "--user-id", alice)
		is(alice, `"blocked":"2`)
		is(namesake, `"blocked":null`)
		p.MustRun("user", "unblock", "--user-id", alice)
		is(alice, `"blocked":null`)
		p.MustRun("session", "issue", "--user-id", alice)
		servicetest.Is(t, p.MustRun("session", "revoke", "--user-id", alice), "revoked: 1\n", "printed")
		p.MustRun("user", "rename", "--user-id", alice, "alicia")
		is(alice, `"username":"alicia"`)
		for _, args := range []string{"user show alicia --user-id " + alice, "user show", "user rename alicia", "user rename --user-id " + alice + " a b", "user rename a b c",
			"user show --user-id alicia", "user block --user-id " + servicetest.IDOf(1), "session issue --user-id " + servicetest.IDOf(1), "session revoke alicia --user-id " + alice, "session list"} {
			p.Fails("worldevents: ", strings.Fields(args)...)
		}
		p.MustRun("user", "remove", "--user-id", alice)
		p.Fails("no such user", "user", "show", "alicia")
		is(namesake, `"username":"`+alice+`"`)
	})
}

// Whom an id names is the user with that id, also if they are renamed just then and somebody else gets their name.
func TestPeopleByIDRenamed(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { // SQLite has one writer
		db := servicetest.Postgres(t)
		s := servicetest.Start(t, db)
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		for i, command := range []string{"user block", "session issue", "user rename", "user remove"} {
			id, namesake := s.SignIn("alice").Session.UserID, servicetest.IDOf(100+i)
			tx := servicetest.BeginTx(t, db, fmt.Sprintf("UPDATE users SET username = 'anna %d' WHERE id = '%s'", i, id),
				"INSERT INTO users (id, username, created_at) VALUES ('"+namesake+"', 'alice', now())")
			args := append(strings.Fields(command), "--user-id", id)
			if command == "user rename" {
				args = append(args, "alicia")
			}
			servicetest.CommitUnder(t, db, tx, 0, func() {
				if stdout, stderr, status := p.Run(args...); status != 0 {
					t.Errorf("%q: %s %s", args, stdout, stderr)
				}
			})
			var name string
			db.Read("SELECT username FROM users WHERE id = ? AND blocked_at IS NULL", []any{namesake}, &name)
			if name != "alice" || db.Count("sessions WHERE user_id = ?", namesake) != 0 {
				t.Errorf("%s: the namesake is called %q", command, name)
			}
			db.Exec("DELETE FROM users")
		}
	})
}

// external signs somebody in whom an identity provider vouches for, and returns the name that they got.
func external(t *testing.T, s *servicetest.Service, subject, name string) string {
	t.Helper()
	var in models.SignIn
	rand.Read(in.Handle[:])
	grant := servicetest.Must(s.Store.SignInExternal(context.Background(), "https://login.example.org", subject, name, in))(t)
	return grant.Username
}

// A renamed user has the new name in all lists and ETags at once, and after the next refresh in the header.
func TestUserRename(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		worlds := []string{"/api/event/one", "/api/event/two"}
		var tags []string
		for _, world := range worlds {
			id := bob.Create(strings.TrimPrefix(world, "/api/event/"), "n", servicetest.When)
			alice.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
			tag := bob.Get(world).Header.Get("ETag")
			for range 3 { // the list is not read again
				bob.Get(world, servicetest.IfNoneMatch(tag)).Is(304, "")
			}
			tags = append(tags, tag)
		}
		if got := p.MustRun("user", "rename", "alice", "alice & <co>"); got != `{"id":"`+alice.Session.UserID+`","username":"alice & <co>"}`+"\n" {
			t.Errorf("printed %s", got)
		}
		for i, world := range worlds {
			res := bob.Get(world, servicetest.IfNoneMatch(tags[i]))
			if got := servicetest.Usernames(t, res.Body); !servicetest.Equal(got, [][]string{{"bob", "alice & <co>"}}) || res.Header.Get("ETag") == tags[i] {
				t.Errorf("%v, ETag %s", got, res.Header.Get("ETag"))
			}
		}
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated).HasHeader("Session-User", "alice")
		id := alice.Create("three", "n", servicetest.When)
		if got := servicetest.Usernames(t, bob.Get("/api/event/three").Body); !servicetest.Equal(got, [][]string{{"alice & <co>"}}) {
			t.Errorf("a JWT of before creates %s for %v", id, got)
		}
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success).HasHeader("Session-User", url.PathEscape("alice & <co>"))

		p.Fails("no such user", "user", "rename", "alice", "x")
		p.Fails("the username is taken", "user", "rename", "bob", "alice & <co>")
		p.Fails("a username is", "user", "rename", "bob", " ")
		p.MustRun("user", "rename", "bob", "bob") // as it is
		p.MustRun("user", "rename", "bob", "alice")
		if got := p.MustRun("user", "add", "bob"); !strings.Contains(got, `"bob"`) { // the name is free
			t.Error(got)
		}
	})
}

// Operators give any name to whom they have added. A user of an identity provider must look like nobody.
func TestUserRenameAlike(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		external(t, s, "1", "paul")
		external(t, s, "2", "mary")
		p.MustRun("user", "add", "ringo")
		for _, alike := range []string{"Paul", "pau1", "р\u0430ul", "paul\u200b", "R1NGO"} { // with Cyrillic letters, and an invisible one
			p.Fails("looks like another user's", "user", "rename", "mary", alike)
		}
		p.MustRun("user", "rename", "ringo", "pau1")
		p.MustRun("user", "rename", "pau1", "ringo")
		p.Fails("is taken", "user", "rename", "mary", "ringo")
		p.MustRun("user", "rename", "mary", "Mary") // their own
		p.MustRun("user", "rename", "Mary", "marie")
		servicetest.Is(t, external(t, s, "2", "mary"), "marie", "what the provider gives back")
		servicetest.Is(t, external(t, s, "3", "marle"), "marle-2", "a new user beside marie")
		servicetest.Is(t, external(t, s, "4", "mary"), "mary", "who gets the old name")
	})
}

// A name that somebody else takes while the command waits for them is taken, and the command waits longer than a request.
func TestUserRenameTakenMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { // SQLite has one writer
		const timeout = 100 * time.Millisecond
		db := servicetest.Postgres(t)
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_TIMEOUT="+timeout.String())
		p.MustRun("user", "add", "alice")
		tx := servicetest.BeginTx(t, db, "INSERT INTO users (id, username, created_at) VALUES ('"+servicetest.IDOf(1)+"', 'bob', now())")
		servicetest.CommitUnder(t, db, tx, 5*timeout, func() { p.Fails("the username is taken", "user", "rename", "alice", "bob") })
	})
}

// A blocked user is out at once, wherever a JWT is still valid, and does not come back until unblocked.
func TestUserBlock(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := bob.Create("plaza", "n", servicetest.When)
		foreign := s.Client() // a JWT of another issuer, which names no session
		foreign.SetCookie("token", s.JWT(s.Claims(alice.Session.UserID, time.Hour)))
		for _, c := range []*servicetest.Client{alice, foreign} {
			c.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		}
		p.MustRun("user", "block", "alice")
		for _, c := range []*servicetest.Client{alice, foreign} {
			c.Get(servicetest.Plaza).IsError(401, "invalid_token")
			c.Post(servicetest.Plaza, servicetest.EventBody).IsError(401, "invalid_token")
			c.Post("/api/event/join/"+id, "").IsError(401, "invalid_token")
			c.Delete("/api/event/"+id).IsError(401, "invalid_token")
		}
		userID, _ := models.ParseID(alice.Session.UserID)
		sessionID, _ := models.ParseID(alice.Session.SessionID)
		out, err := s.Store.SignedOut(context.Background(), []models.Caller{{UserID: userID}, {UserID: userID, SessionID: sessionID}}) // as for a shared list
		if err != nil || len(out) != 2 {
			t.Errorf("%v, signed out: %v", err, out)
		}
		alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		alice.SetCookie("token", s.ExpiredSession(alice.Session))
		alice.Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
		servicetest.Is(t, servicetest.Usernames(t, bob.Get(servicetest.Plaza).Body), [][]string{{"bob", "alice"}}, "RSVPs")

		again := s.Client()
		form := again.Post("/sign-in", "username=alice", servicetest.AsForm)
		if form.SetsNoCookie(); form.Status != 403 || !strings.Contains(form.Body, "This account is blocked") {
			t.Errorf("%d %s", form.Status, form.Body)
		}
		p.Fails("the user is blocked", "session", "issue", "alice")
		servicetest.Is(t, s.Database.Count("sessions WHERE user_id = ? AND revoked_at IS NULL", alice.Session.UserID), 0, "sessions")
		before := p.MustRun("user", "show", "alice") // with the time of the block
		if _, stderr, _ := p.Run("user", "block", "alice"); stderr != "" {
			t.Errorf("blocking again is no change: %s", stderr)
		}
		servicetest.Is(t, p.MustRun("user", "show", "alice"), before, "the user after a second block")
		p.MustRun("user", "unblock", "alice")
		alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh) // the old session stays over
		foreign.Get(servicetest.Plaza).Is(200, bob.Get(servicetest.Plaza).Body)
		s.SignIn("alice").Get(servicetest.Plaza).Is(200, bob.Get(servicetest.Plaza).Body)
		p.Fails("no such user", "user", "block", "nobody")
		p.Fails("no such user", "user", "unblock", "nobody")
		p.Fails("needs one of", "user", "unblock")
	})
}

// What is removed leaves no row and no name; events stay, without a creator.
func TestUserRemove(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		const name = "Zebulon Q. Unmistakable"
		gone, bob := s.SignIn(name), s.SignIn("bob")
		own := gone.Create("plaza", "own", servicetest.When)
		other := bob.Create("plaza", "other", servicetest.When)
		gone.Post("/api/event/join/"+other, "").Is(200, servicetest.Success)
		bob.Post("/api/event/join/"+own, "").Is(200, servicetest.Success)
		tag := bob.Get(servicetest.Plaza).Header.Get("ETag")

		stdout, stderr, status := p.Run("user", "remove", name)
		if want := `{"id":"` + gone.Session.UserID + `","sessions":1,"rsvps":2,"events":1}` + "\n"; status != 0 || stdout != want || !servicetest.IsAudit(stderr) {
			t.Errorf("%d %s %s", status, stdout, stderr)
		}
		if strings.Contains(stderr, "Zebulon") || !strings.Contains(stderr, gone.Session.UserID) {
			t.Errorf("the audit line: %s", stderr)
		}
		if text := dump(t, s.Database); strings.Contains(text, "Zebulon") || strings.Contains(text, gone.Session.UserID) {
			t.Errorf("left: %s", text)
		}
		res := bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag))
		if got := servicetest.Usernames(t, res.Body); res.Status != 200 || !servicetest.Equal(got, [][]string{{"bob"}, {"bob"}}) {
			t.Errorf("%d %v", res.Status, got)
		}
		gone.Get(servicetest.Plaza).IsError(401, "invalid_token")
		gone.Post("/api/event/join/"+own, "").IsError(401, "invalid_token")
		gone.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
		gone.SetCookie("token", s.ExpiredSession(gone.Session))
		gone.Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalidRefresh)
		p.Fails("no such user", "user", "remove", name)
		p.Fails("never signed in with an identity provider", "user", "remove", "bob", "--block")
		bob.Get(servicetest.Plaza).Is(200, res.Body)
		if fresh := s.SignIn(name); fresh.Session.UserID == gone.Session.UserID { // the name is free
			t.Error("the same user")
		}
	})
}

// With --events what the user has created goes, too, and of others' events only the RSVPs. A dry run says it beforehand, and what is refused
// removes nothing.
func TestUserRemoveEvents(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		spammer, bob := s.SignIn("spammer"), s.SignIn("bob")
		id := spammer.Session.UserID
		kept := bob.Create("plaza", "kept", servicetest.When)
		spammer.Post("/api/event/join/"+kept, "").Is(200, servicetest.Success)
		servicetest.AddEvents(s, "spam", 7001, 250, 2030, "d")
		s.Database.Exec("UPDATE events SET creator_id = ? WHERE world_id = 'spam'", id)
		own := spammer.Create("plaza", "own", servicetest.When)
		bob.Post("/api/event/join/"+own, "").Is(200, servicetest.Success)

		p.Fails("never signed in with an identity provider", "user", "remove", "spammer", "--events", "--block")
		want := `{"id":"` + id + `","sessions":1,"rsvps":1,"events":0,"created":{"events":251,"rsvps":2}`
		if stdout, stderr, _ := p.Run("user", "remove", "spammer", "--events", "--dry-run"); stdout != want+`,"dryRun":true}`+"\n" || stderr != "" {
			t.Errorf("dry run: %s %s", stdout, stderr)
		}
		if stdout, _, _ := p.Run("user", "remove", "spammer", "--dry-run"); stdout != `{"id":"`+id+`","sessions":1,"rsvps":2,"events":251,"dryRun":true}`+"\n" {
			t.Errorf("dry run without events: %s", stdout)
		}
		spammer.Get("/api/event/none").Is(200, servicetest.List())
		servicetest.Is(t, len(servicetest.EventIDs(t, bob.Get("/api/event/spam").Body)), 250, "events after dry runs")
		stdout, stderr, _ := p.Run("user", "remove", "--user-id", id, "--events")
		if stdout != want+"}\n" || !servicetest.IsAudit(stderr) || !strings.Contains(stderr, "user="+id+" events=251 rsvps=2") {
			t.Errorf("%s %s", stdout, stderr)
		}
		bob.Get("/api/event/spam").Is(200, servicetest.List())
		bob.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(kept, "kept", "", servicetest.When, "bob")))
		if text := dump(t, s.Database); strings.Contains(text, "spammer") || strings.Contains(text, id) {
			t.Errorf("left: %s", text)
		}
		servicetest.Is(t, left(t, s), [2]int{1, 1}, "events and RSVPs left")
	})
}

// dump is all that the tables hold, as text.
func dump(t *testing.T, db *servicetest.Database) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{"users", "sessions", "events", "rsvps", "blocked_identities"} {
		rows := servicetest.Must(db.DB.Query("SELECT * FROM " + table))(t)
		columns, _ := rows.Columns()
		values := make([]any, len(columns))
		for rows.Next() {
			for i := range values {
				values[i] = new(any)
			}
			servicetest.NoError(t, rows.Scan(values...))
			for _, v := range values {
				value := *v.(*any)
				if bytes, ok := value.([]byte); ok {
					value = string(bytes)
				}
				fmt.Fprintf(&b, "%v\t", value)
			}
		}
		rows.Close()
	}
	return b.String()
}

// The export of a person is all that is kept, without anything that opens a session.
func TestUserShow(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		external(t, s, "subject-7", "alice")
		grant := s.SignIn("alice")
		bob := s.SignIn("bob")
		own := grant.Create("plaza", "Chess", servicetest.When)
		other := bob.Create("cellar & <attic>", "Other", servicetest.When)
		grant.Post("/api/event/join/"+other, "").Is(200, servicetest.Success)
		text := p.MustRun("user", "show", "alice")
		var shown struct {
			ID, Username, Created string
			Issuer, Subject       string
			Blocked               *string
			Sessions              []struct{ ID, Device, Network, Created, Refreshed, Expires string }
			Events                []struct{ ID, World, Name, Description, ScheduledAt, Created string }
			RSVPs                 []struct{ Event, World, Name, ScheduledAt, Joined string }
		}
		servicetest.NoError(t, json.Unmarshal([]byte(text), &shown))
		if shown.ID != grant.Session.UserID || shown.Username != "alice" || shown.Issuer != "https://login.example.org" || shown.Subject != "subject-7" || shown.Blocked != nil {
			t.Errorf("%s", text)
		}
		if len(shown.Sessions) != 2 || shown.Sessions[1].ID != grant.Session.SessionID { // the first has ended
			t.Errorf("sessions: %+v", shown.Sessions)
		}
		if len(shown.Events) != 1 || shown.Events[0].ID != own || shown.Events[0].ScheduledAt != servicetest.When {
			t.Errorf("events: %+v", shown.Events)
		}
		if len(shown.RSVPs) != 2 || shown.RSVPs[0].Event != own || shown.RSVPs[1].World != "cellar & <attic>" {
			t.Errorf("RSVPs: %+v", shown.RSVPs)
		}
		for _, column := range []string{"hash", "spent", "token"} {
			servicetest.Lacks(t, text, column)
		}
		p.MustRun("user", "block", "alice")
		if text := p.MustRun("user", "show", "alice"); !strings.Contains(text, `"blocked":"20`) || strings.Count(text, `"revoked":"20`) != 2 {
			t.Errorf("blocked: %s", text)
		}
		p.Fails("no such user", "user", "show", "nobody")
	})
}

// The export of a person is of one moment.
func TestExportIsOfOneMoment(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { // on SQLite nobody writes meanwhile
		s := servicetest.Start(t, servicetest.Postgres(t))
		s.SignIn("alice").Create("plaza", "n", servicetest.When)
		// A policy has who reads the RSVPs, which come last, wait for a lock.
		reader := s.Database.As("reader")
		s.Database.Exec("CREATE FUNCTION pause() RETURNS boolean LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock_shared(7) IS NOT NULL $$")
		s.Database.Exec("CREATE POLICY pause ON rsvps USING (pause())")
		s.Database.Exec("ALTER TABLE rsvps ENABLE ROW LEVEL SECURITY")
		tx := servicetest.BeginTx(t, s.Database, "SELECT pg_advisory_xact_lock(7)", "DELETE FROM events")
		store := servicetest.Must(models.Open(models.Options{URL: reader.URL, MaxConns: 2, Timeout: time.Minute}))(t)
		defer store.Close()
		servicetest.CommitUnder(t, s.Database, tx, 0, func() {
			if person, err := store.FindPerson(context.Background(), models.Who{Username: "alice"}); err != nil || len(person.Events) != 1 || len(person.RSVPs) != 1 {
				t.Errorf("%v, %d events, %d RSVPs", err, len(person.Events), len(person.RSVPs))
			}
		})
	})
}

func TestUserList(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		servicetest.Is(t, p.MustRun("user", "list"), "[]\n", "of nobody")
		servicetest.Crowd(t, s, "plaza", 2500) // more than are read at once
		s.AddUser("alice")
		p.MustRun("user", "block", "alice")
		text := p.MustRun("user", "list")
		var users []struct {
			ID, Username, Created string
			Blocked               *string
		}
		servicetest.NoError(t, json.Unmarshal([]byte(text), &users))
		seen := make(map[string]bool)
		blocked := 0
		for _, u := range users {
			seen[u.Username] = true
			if u.Blocked != nil {
				blocked++
			}
		}
		if len(users) != 2501 || len(seen) != 2501 || blocked != 1 || strings.Count(text, "\n") != 2503 {
			t.Errorf("%d users, %d names, %d blocked, %d lines", len(users), len(seen), blocked, strings.Count(text, "\n"))
		}
	})
}

// Whoever reads the output and goes away does not take the audit line with them.
func TestAuditWithoutReader(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	for i := range 10 { // without a flush it is lost in about half of the runs
		reader, writer, err := os.Pipe()
		servicetest.NoError(t, err)
		reader.Close()
		var stderr bytes.Buffer
		command := p.Command("user", "add", fmt.Sprint("user", i))
		command.Stdout, command.Stderr = writer, &stderr
		command.Run()
		writer.Close()
		if !servicetest.IsAudit(stderr.String()) {
			t.Fatalf("run %d: %q", i, &stderr)
		}
	}
}

// A command that is interrupted between two readings ends with one line.
func TestCommandInterrupted(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		servicetest.Crowd(t, s, "w", 20_000) // twenty readings
		var stderr bytes.Buffer
		command := p.Command("user", "list")
		command.Stderr = &stderr
		stdout := servicetest.Must(command.StdoutPipe())(t)
		servicetest.NoError(t, command.Start())
		servicetest.Must(stdout.Read(make([]byte, 1)))(t)
		command.Process.Signal(syscall.SIGINT) // while it can write no more
		io.Copy(io.Discard, stdout)
		command.Wait()
		if status := command.ProcessState.ExitCode(); status != 1 || stderr.String() != "worldevents: interrupted\n" {
			t.Errorf("%d %q", status, &stderr)
		}
	})
}

// Whatever a user does while somebody changes them, nothing stays that must not: no session, no row, no event, no name of before.
func TestUserRaces(t *testing.T) {
	const sessions, named = "sessions WHERE user_id = ? AND (revoked_at IS NULL OR token_hash IS NOT NULL)", "rsvps r JOIN users u ON u.number = r.user_number WHERE u.id = ? AND u.username <> r.username"
	remove := func(removal models.UserRemoval) func(*models.Store, models.Who) error {
		return func(s *models.Store, who models.Who) error {
			_, err := s.RemoveUser(context.Background(), who, removal)
			return err
		}
	}
	for _, test := range []struct {
		name   string
		change func(*models.Store, models.Who) error
		none   []string // of the user's id
	}{
		{"block", func(s *models.Store, who models.Who) error {
			_, _, err := s.BlockUser(context.Background(), who)
			return err
		}, []string{sessions}},
		{"rename", func(s *models.Store, who models.Who) error {
			_, err := s.RenameUser(context.Background(), who, "new name")
			return err
		}, []string{named}},
		{"remove", remove(models.UserRemoval{}), []string{sessions, "users WHERE id = ?", "events WHERE creator_id = ?"}},
		{"remove with events", remove(models.UserRemoval{Events: true, Progress: func(models.RemovedEvents) {}}), []string{sessions, "users WHERE id = ?", "events WHERE world_id = ?"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
				event := s.SignIn("bob").Create("plaza", "n", servicetest.When)
				for round := range 5 {
					s.Database.Exec("UPDATE users SET username = ? WHERE username = 'new name'", fmt.Sprint("former ", round))
					name := fmt.Sprint("alice ", round)
					alice := s.SignIn(name)
					id := alice.Session.UserID
					var done atomic.Bool
					var wait sync.WaitGroup
					for i := range 4 {
						wait.Go(func() {
							for !done.Load() {
								alice.Post("/api/event/"+id, servicetest.EventBody)
								switch {
								case i == 0:
									alice.Post("/api/event/join/"+event, "")
								case i == 1:
									alice.Get(servicetest.RefreshPath)
								case i == 2 && test.name == "block":
									s.Server.SignIn(context.Background(), models.Who{Username: name}, true)
								}
							}
						})
					}
					servicetest.Eventually(t, 20*time.Second, "they create", func() bool { return s.Database.Count("events WHERE creator_id = ?", id) > 8 })
					servicetest.Is(t, test.change(s.Store, models.Who{Username: name}), nil, "error")
					done.Store(true)
					wait.Wait()
					for _, rows := range test.none {
						servicetest.Is(t, s.Database.Count(rows, id), 0, "%s", rows)
					}
					if test.name != "rename" {
						alice.Get(servicetest.Plaza).IsError(401, "invalid_token")
					}
				}
			})
		})
	}
}
