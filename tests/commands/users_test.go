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
			servicetest.Is(t, p.MustRun(append(strings.Fields(args), "alice")...), byID, "%s by name", args)
			servicetest.Is(t, p.MustRun(append(strings.Fields(args), alice)...) == byID, false, "%s takes a name for an id", args)
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
	db := servicetest.Postgres(t) // SQLite has one writer
	s := servicetest.Start(t, db)
	p := programOn(t, db)
	for i, command := range []string{"user block --user-id %s", "session issue --user-id %s", "user rename --user-id %s alicia", "user remove --user-id %s"} {
		id, namesake := s.SignIn("alice").Session.UserID, servicetest.IDOf(100+i)
		tx := servicetest.BeginTx(t, db, fmt.Sprintf("UPDATE users SET username = 'anna %d' WHERE id = '%s'", i, id),
			"INSERT INTO users (id, username, created_at) VALUES ('"+namesake+"', 'alice', now())")
		servicetest.CommitUnder(t, db, tx, 0, func() { p.Succeeds(strings.Fields(fmt.Sprintf(command, id))...) })
		servicetest.Is(t, db.Count("users WHERE id = ? AND username = 'alice' AND blocked_at IS NULL", namesake), 1, "%s: namesakes", command)
		servicetest.Is(t, db.Count("sessions WHERE user_id = ?", namesake), 0, "%s: the namesake's sessions", command)
		db.Exec("DELETE FROM users")
	}
}

// external signs somebody in whom an identity provider vouches for, and returns the name that they got.
func external(t *testing.T, s *servicetest.Service, subject, name string) string {
	t.Helper()
	return servicetest.Must(trySignIn(s, subject, name))(t).Username
}

func trySignIn(s *servicetest.Service, subject, name string) (models.Grant, error) {
	var in models.SignIn
	rand.Read(in.Handle[:])
	return s.Store.SignInExternal(context.Background(), "https://login.example.org", subject, name, in)
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
		printed := `{"id":"` + alice.Session.UserID + `","username":"alice & <co>"}` + "\n"
		servicetest.Is(t, p.MustRun("user", "rename", "alice", "alice & <co>"), printed, "printed")
		for i, world := range worlds {
			res := bob.Get(world, servicetest.IfNoneMatch(tags[i]))
			servicetest.Is(t, servicetest.Usernames(t, res.Body), [][]string{{"bob", "alice & <co>"}}, "RSVPs")
			servicetest.Is(t, res.Header.Get("ETag") == tags[i], false, "the ETag stays")
		}
		alice.Get(servicetest.SessionPath).Is(200, servicetest.Authenticated).HasHeader("Session-User", "alice")
		alice.Create("three", "n", servicetest.When) // with a JWT of before
		servicetest.Is(t, servicetest.Usernames(t, bob.Get("/api/event/three").Body), [][]string{{"alice & <co>"}}, "RSVPs")
		alice.Get(servicetest.RefreshPath).Is(200, servicetest.Success).HasHeader("Session-User", url.PathEscape("alice & <co>"))

		p.Fails("no such user", "user", "rename", "alice", "x")
		p.Fails("the username is taken", "user", "rename", "bob", "alice & <co>")
		p.Fails("a username is", "user", "rename", "bob", " ")
		p.MustRun("user", "rename", "bob", "bob") // as it is
		p.MustRun("user", "rename", "bob", "alice")
		servicetest.Contains(t, p.MustRun("user", "add", "bob"), `"bob"`) // the name is free
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
	const timeout = 100 * time.Millisecond
	db := servicetest.Postgres(t) // SQLite has one writer
	p := programOn(t, db).With("DB_TIMEOUT=" + timeout.String())
	p.MustRun("user", "add", "alice")
	tx := servicetest.BeginTx(t, db, "INSERT INTO users (id, username, created_at) VALUES ('"+servicetest.IDOf(1)+"', 'bob', now())")
	servicetest.CommitUnder(t, db, tx, 5*timeout, func() { p.Fails("the username is taken", "user", "rename", "alice", "bob") })
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
		callers := []models.Caller{{UserID: userID}, {UserID: userID, SessionID: sessionID}} // as of a shared list
		servicetest.Is(t, len(servicetest.Must(s.Store.SignedOut(context.Background(), callers))(t)), 2, "signed out")
		alice.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh).SetsNoCookie()
		alice.SetCookie("token", s.ExpiredSession(alice.Session))
		alice.Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalidRefresh).SetsNoCookie()
		servicetest.Is(t, servicetest.Usernames(t, bob.Get(servicetest.Plaza).Body), [][]string{{"bob", "alice"}}, "RSVPs")

		s.Client().Post("/sign-in", "username=alice", servicetest.AsForm).SetsNoCookie().IsError(403, "user_blocked")
		p.Fails("the user is blocked", "session", "issue", "alice")
		servicetest.Is(t, s.Database.Count("sessions WHERE user_id = ? AND revoked_at IS NULL", alice.Session.UserID), 0, "sessions")
		before := p.MustRun("user", "show", "alice") // with the time of the block
		_, stderr := p.Succeeds("user", "block", "alice")
		servicetest.Is(t, stderr, "", "what is said of a second block")
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

		stdout, stderr := p.Succeeds("user", "remove", name)
		servicetest.Is(t, stdout, `{"id":"`+gone.Session.UserID+`","sessions":1,"rsvps":2,"events":1}`+"\n", "printed")
		servicetest.Is(t, servicetest.IsAudit(stderr), true, "an audit line: %s", stderr)
		servicetest.Contains(t, stderr, gone.Session.UserID)
		servicetest.Lacks(t, stderr, "Zebulon")
		hasNone(t, s.Database, "Zebulon", gone.Session.UserID)
		res := bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag))
		servicetest.Is(t, servicetest.Usernames(t, res.Body), [][]string{{"bob"}, {"bob"}}, "RSVPs")
		gone.Get(servicetest.Plaza).IsError(401, "invalid_token")
		gone.Post("/api/event/join/"+own, "").IsError(401, "invalid_token")
		gone.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
		gone.SetCookie("token", s.ExpiredSession(gone.Session))
		gone.Get(servicetest.SessionPath).Is(400, servicetest.SessionInvalidRefresh)
		p.Fails("no such user", "user", "remove", name)
		p.Fails("never signed in with an identity provider", "user", "remove", "bob", "--block")
		bob.Get(servicetest.Plaza).Is(200, res.Body)
		servicetest.Is(t, s.SignIn(name).Session.UserID == gone.Session.UserID, false, "who takes the name is the same user")
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
		stdout, stderr := p.Succeeds("user", "remove", "spammer", "--events", "--dry-run")
		servicetest.Is(t, stdout+stderr, want+`,"dryRun":true}`+"\n", "a dry run says")
		servicetest.Is(t, p.MustRun("user", "remove", "spammer", "--dry-run"), `{"id":"`+id+`","sessions":1,"rsvps":2,"events":251,"dryRun":true}`+"\n", "without events")
		spammer.Get("/api/event/none").Is(200, servicetest.List())
		servicetest.Is(t, len(servicetest.EventIDs(t, bob.Get("/api/event/spam").Body)), 250, "events after dry runs")
		stdout, stderr = p.Succeeds("user", "remove", "--user-id", id, "--events")
		servicetest.Is(t, stdout, want+"}\n", "printed")
		servicetest.Is(t, servicetest.IsAudit(stderr), true, "an audit line: %s", stderr)
		servicetest.Contains(t, stderr, "user="+id+" events=251 rsvps=2")
		bob.Get("/api/event/spam").Is(200, servicetest.List())
		bob.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(kept, "kept", "", servicetest.When, "bob")))
		hasNone(t, s.Database, "spammer", id)
		servicetest.Is(t, left(t, s), [2]int{1, 1}, "events and RSVPs left")
	})
}

// hasNone fails the test where a table has one of these texts in a row.
func hasNone(t *testing.T, db *servicetest.Database, texts ...string) {
	t.Helper()
	for _, table := range servicetest.CopiedTables {
		row := "CAST(r AS text)" // of all columns
		if db.Dialect == "sqlite" {
			db.Read("SELECT group_concat('coalesce(' || name || ', '''')', ' || ') FROM pragma_table_info(?)", []any{table}, &row)
		}
		for _, text := range texts {
			servicetest.Is(t, db.Count(table+" r WHERE "+row+" LIKE ?", "%"+text+"%"), 0, "rows of %s with %s", table, text)
		}
	}
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
			ID, Username, Issuer, Subject string
			Blocked                       *string
			Sessions                      []struct{ ID string }
			Events                        []struct{ ID, ScheduledAt string }
			RSVPs                         []struct{ Event, World string }
		}
		servicetest.NoError(t, json.Unmarshal([]byte(text), &shown))
		who := [4]string{grant.Session.UserID, "alice", "https://login.example.org", "subject-7"}
		servicetest.Is(t, [4]string{shown.ID, shown.Username, shown.Issuer, shown.Subject}, who, "who is shown")
		if len(shown.Sessions) != 2 || len(shown.Events) != 1 || len(shown.RSVPs) != 2 || shown.Blocked != nil {
			t.Fatalf("shown: %s", text)
		}
		servicetest.Is(t, shown.Sessions[1].ID, grant.Session.SessionID, "the session after one that has ended")
		servicetest.Is(t, [2]string{shown.Events[0].ID, shown.Events[0].ScheduledAt}, [2]string{own, servicetest.When}, "the event")
		servicetest.Is(t, [2]string{shown.RSVPs[0].Event, shown.RSVPs[1].World}, [2]string{own, "cellar & <attic>"}, "the RSVPs")
		for _, column := range []string{"hash", "spent", "token"} {
			servicetest.Lacks(t, text, column)
		}
		p.MustRun("user", "block", "alice")
		text = p.MustRun("user", "show", "alice")
		servicetest.Contains(t, text, `"blocked":"20`)
		servicetest.Is(t, strings.Count(text, `"revoked":"20`), 2, "sessions that have ended")
		p.Fails("no such user", "user", "show", "nobody")
	})
}

// The export of a person is of one moment.
func TestExportIsOfOneMoment(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t)) // on SQLite nobody writes meanwhile
	s.SignIn("alice").Create("plaza", "n", servicetest.When)
	// A policy has who reads the RSVPs, which come last, wait for a lock.
	p := programOn(t, s.Database.As("reader"))
	s.Database.Exec("CREATE FUNCTION pause() RETURNS boolean LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock_shared(7) IS NOT NULL $$")
	s.Database.Exec("CREATE POLICY pause ON rsvps USING (pause())")
	s.Database.Exec("ALTER TABLE rsvps ENABLE ROW LEVEL SECURITY")
	tx := servicetest.BeginTx(t, s.Database, "SELECT pg_advisory_xact_lock(7)", "DELETE FROM events")
	servicetest.CommitUnder(t, s.Database, tx, 0, func() {
		servicetest.Is(t, strings.Count(p.MustRun("user", "show", "alice"), `"plaza"`), 2, "an event and its RSVP")
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
			Username string
			Blocked  *string
		}
		servicetest.NoError(t, json.Unmarshal([]byte(text), &users))
		seen := make(map[string]bool) // whether they are blocked
		for _, u := range users {
			seen[u.Username] = u.Blocked != nil
		}
		servicetest.Is(t, [3]int{len(users), len(seen), strings.Count(text, "\n")}, [3]int{2501, 2501, 2503}, "users, names and lines")
		servicetest.Is(t, strings.Count(text, `"blocked":null`), 2500, "users who are not blocked")
		servicetest.Is(t, seen["alice"], true, "alice is blocked")
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
		servicetest.Is(t, command.ProcessState.ExitCode(), 1, "exit status")
		servicetest.Is(t, stderr.String(), "worldevents: interrupted\n", "what it says")
	})
}

// Whatever a user does while somebody changes them, nothing stays that must not: no session, no row, no event, no name of before.
func TestUserRaces(t *testing.T) {
	const sessions, named = "sessions WHERE user_id = ? AND (revoked_at IS NULL OR token_hash IS NOT NULL)", "rsvps r JOIN users u ON u.number = r.user_number WHERE u.id = ? AND u.username <> r.username"
	for _, test := range []struct {
		change string   // a command, for the name of the user
		none   []string // of the user's id
	}{
		{"user block %s", []string{sessions}},
		{"user rename %s new-name", []string{named}},
		{"user remove %s", []string{sessions, "users WHERE id = ?", "events WHERE creator_id = ?"}},
		{"user remove %s --events", []string{sessions, "users WHERE id = ?", "events WHERE world_id = ?"}},
	} {
		t.Run(test.change, func(t *testing.T) {
			eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
				event := s.SignIn("bob").Create("plaza", "n", servicetest.When)
				for round := range 5 {
					s.Database.Exec("UPDATE users SET username = ? WHERE username = 'new-name'", fmt.Sprint("former", round))
					name := fmt.Sprint("alice", round)
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
								case i == 2 && test.change == "user block %s":
									s.Server.SignIn(context.Background(), models.Who{Username: name}, true)
								}
							}
						})
					}
					servicetest.Eventually(t, "they create", func() bool { return s.Database.Count("events WHERE creator_id = ?", id) > 8 })
					p.Succeeds(strings.Fields(fmt.Sprintf(test.change, name))...)
					done.Store(true)
					wait.Wait()
					for _, rows := range test.none {
						servicetest.Is(t, s.Database.Count(rows, id), 0, "%s", rows)
					}
					if !strings.HasPrefix(test.change, "user rename") {
						alice.Get(servicetest.Plaza).IsError(401, "invalid_token")
					}
				}
			})
		})
	}
}
