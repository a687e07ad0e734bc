package commands

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// eventLine is what event list prints of an event.
type eventLine struct {
	ID, World, ScheduledAt string
	Creator                *string
	RSVPs                  int
}

// listed are the events that event list prints.
func listed(t *testing.T, p *servicetest.Program, args ...string) (lines []eventLine) {
	t.Helper()
	servicetest.NoError(t, json.Unmarshal([]byte(p.MustRun(append([]string{"event", "list"}, args...)...)), &lines))
	return lines
}

func TestEventListAndShow(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		servicetest.Is(t, p.MustRun("event", "list", "--world", "plaza"), "[]\n", "of nothing")
		p.Fails("--world: must not be empty", "event", "list", "--world", "")
		p.Fails("event list needs one of: --world, --creator, --user-id", "event", "list")
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		late := alice.Create("plaza", "late", "2031-01-01T00:00:00Z")
		early := bob.Create("plaza", "early <b>", servicetest.When)
		bob.Create("elsewhere", "n", servicetest.When)
		alice.Post("/api/event/join/"+early, "").Is(200, servicetest.Success)
		lines := listed(t, p, "--world", "plaza")
		if len(lines) != 2 || lines[0].ID != early || lines[1].ID != late || lines[0].RSVPs != 2 || *lines[0].Creator != "bob" || lines[0].ScheduledAt != servicetest.When {
			t.Errorf("%+v", lines)
		}
		var shown struct {
			Name  string
			RSVPs []struct{ Username, Joined string }
		}
		servicetest.NoError(t, json.Unmarshal([]byte(p.MustRun("event", "show", early)), &shown))
		if shown.Name != "early <b>" || len(shown.RSVPs) != 2 || shown.RSVPs[0].Username != "bob" || shown.RSVPs[1].Username != "alice" || shown.RSVPs[1].Joined == "" {
			t.Errorf("%+v", shown)
		}
		servicetest.AddEvents(s, "large", 7000, 1700, 2031, "d")
		servicetest.Is(t, len(listed(t, p, "--world", "large")), 1700, "events of a large world")
		p.Fails("no such event", "event", "show", servicetest.IDOf(1))
		p.Fails("not an id", "event", "show", "x")
	})
}

// An edit shows in the next list, whatever was remembered of the one before, and obeys the contract.
func TestEventEdit(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "Chess", servicetest.When)
		other := servicetest.Listed(alice.Create("plaza", "Other", "2030-06-01T00:00:00Z"), "Other", "", "2030-06-01T00:00:00.000Z", "alice")
		for i, edit := range []struct{ args, want []string }{
			{[]string{"--name", "Go"}, []string{servicetest.Listed(id, "Go", "", servicetest.When, "alice"), other}},
			{[]string{"--description", "Bring\na board."}, []string{servicetest.Listed(id, "Go", "Bring\na board.", servicetest.When, "alice"), other}},
			{[]string{"--description", ""}, []string{servicetest.Listed(id, "Go", "", servicetest.When, "alice"), other}},
			{[]string{"--scheduled-at", "2031-01-01T02:00:00.9999+02:00", "--name", "Later"},
				[]string{other, servicetest.Listed(id, "Later", "", "2031-01-01T00:00:00.999Z", "alice")}},
		} {
			tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
			for range 5 {
				alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
			}
			p.MustRun(append([]string{"event", "edit", id}, edit.args...)...)
			res := alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, servicetest.List(edit.want...))
			servicetest.Is(t, res.Header.Get("ETag") == tag, false, "edit %d keeps the ETag", i)
		}
		for words, args := range map[string][]string{
			"needs one or more of":             nil,
			"name must be":                     {"--name", " "},
			"name must be 1 to 200":            {"--name", strings.Repeat("x", 201), "--description", "fine"},
			"description must be":              {"--description", "\x07"},
			"scheduledAt must be":              {"--scheduled-at", "2030-02-30T00:00:00Z"},
			"scheduledAt must be an RFC 3339 ": {"--scheduled-at", "tomorrow"},
		} {
			p.Fails(words, append([]string{"event", "edit", id}, args...)...)
		}
		p.Fails("scheduledAt must be", "event", "edit", id, "--name", "", "--scheduled-at", "9999-12-31T23:59:59-14:00")
		p.Fails("no such event", "event", "edit", servicetest.IDOf(1), "--name", "x")
		_, stderr := p.Succeeds("event", "edit", id, "--name", "Last")
		servicetest.Is(t, servicetest.IsAudit(stderr) && strings.Contains(stderr, id) && strings.Contains(stderr, "os_user="), true, "an audit line: %s", stderr)
	})
}

// left returns how many events and RSVPs are left once those that were removed are swept.
func left(t *testing.T, s *servicetest.Service) [2]int {
	t.Helper()
	servicetest.NoError(t, s.Store.SweepEvents(t.Context()))
	return rows(s.Database)
}

// rows is how many events and RSVPs there are.
func rows(db *servicetest.Database) [2]int { return [2]int{db.Count("events"), db.Count("rsvps")} }

func TestEventRemove(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "spam", servicetest.When)
		kept := alice.Create("plaza", "kept", servicetest.When)
		servicetest.Crowd(t, s, "full", 1700, 3)
		tag := alice.Get(servicetest.Plaza).Header.Get("ETag")
		servicetest.Is(t, p.MustRun("event", "remove", id), `{"id":"`+id+`","rsvps":1}`+"\n", "printed")
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, servicetest.List(servicetest.Listed(kept, "kept", "", servicetest.When, "alice")))
		alice.Post("/api/event/join/"+id, "").IsError(404, "event_not_found")
		alice.Delete("/api/event/"+id).IsError(404, "event_not_found")
		p.Fails("no such event", "event", "remove", id)

		large := servicetest.EventIDs(t, alice.Get("/api/event/full").Body)[0]
		servicetest.Is(t, p.MustRun("event", "remove", large), `{"id":"`+large+`","rsvps":1700}`+"\n", "printed")
		servicetest.Is(t, len(servicetest.EventIDs(t, alice.Get("/api/event/full").Body)), 1, "events")
		servicetest.Is(t, left(t, s), [2]int{2, 1 + 3}, "events and RSVPs left")
	})
}

// Pruning deletes what was scheduled before, of one world or all, and only that.
func TestEventPrune(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice := s.SignIn("alice")
		servicetest.AddEvents(s, "one", 7001, 250, 2020, "d")
		servicetest.AddEvents(s, "two", 7002, 30, 2020, "d")
		servicetest.Crowd(t, s, "full", 1200, 40) // in 2030, the first in several batches
		s.Database.Exec("INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT e.number, u.number, u.username, e.created_at FROM events e, users u WHERE e.world_id = 'two' AND u.username = 'alice'")
		kept := alice.Create("one", "kept", "2031-01-01T00:00:00Z")
		exactly := alice.Create("two", "exactly then", "2031-01-01T00:00:00Z")

		before := left(t, s)
		prune := func(want string, args ...string) {
			t.Helper()
			servicetest.Is(t, p.MustRun(append([]string{"event", "prune"}, args...)...), want+"\n", "%q printed", args)
		}
		prune(`{"events":282,"rsvps":1270,"dryRun":true}`, "--before", "2031-01-01T00:00:00Z", "--dry-run")
		prune(`{"events":30,"rsvps":30,"dryRun":true}`, "--before", "2031-01-01T00:00:00Z", "--dry-run", "--world", "two")
		prune(`{"events":0,"rsvps":0,"dryRun":false}`, "--before", "2020-01-01T00:00:00Z")
		servicetest.Is(t, left(t, s), before, "left by a dry run")
		prune(`{"events":30,"rsvps":30,"dryRun":false}`, "--before", "2031-01-01T01:00:00+01:00", "--world", "two")
		servicetest.Is(t, servicetest.EventIDs(t, alice.Get("/api/event/two").Body), []string{exactly}, "left in two")
		prune(`{"events":252,"rsvps":1240,"dryRun":false}`, "--before", "2031-01-01T00:00:00Z")
		servicetest.Is(t, servicetest.EventIDs(t, alice.Get("/api/event/one").Body), []string{kept}, "left in one")
		servicetest.Is(t, left(t, s), [2]int{2, 2}, "left")
		p.Fails("--before", "event", "prune", "--before", "yesterday")
		p.Fails("event prune needs one of: --before, --older-than", "event", "prune")
		p.Fails("event prune needs one of: --before, --older-than", "event", "prune", "--before", servicetest.When, "--older-than", "90d")
		for _, age := range []string{"0d", "90", "-1d", "1.5d", "d", "24h", "65536d", "90D", " 90d"} {
			p.Fails("--older-than: must be 1 to 65535 days, such as 90d", "event", "prune", "--older-than="+age)
		}
		p.Fails("--world", "event", "prune", "--before", servicetest.When, "--world", "")
	})
}

// Two at once delete each event once, beside lists and joins that go on.
func TestEventPruneAtOnce(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice := s.SignIn("alice")
		servicetest.AddEvents(s, "old", 7001, 3000, 2020, "d")
		servicetest.Crowd(t, s, "old", 2500)
		kept := alice.Create("old", "kept", "2040-01-01T00:00:00Z")
		var pruned, running atomic.Int64
		running.Store(2)
		servicetest.AtOnce(3, func(i int) {
			for i == 2 && running.Load() > 0 {
				if got := servicetest.EventIDs(t, alice.Get("/api/event/old").Body); !slices.Contains(got, kept) {
					t.Errorf("%d events without the one that stays", len(got))
				}
				alice.Delete("/api/event/"+kept).Is(200, servicetest.Success)
				alice.Post("/api/event/join/"+kept, "").Is(200, servicetest.Success)
			}
			if i == 2 {
				return
			}
			defer running.Add(-1)
			stdout, _ := p.Succeeds("event", "prune", "--before", "2035-01-01T00:00:00Z")
			var result struct{ Events int64 }
			servicetest.Is(t, json.Unmarshal([]byte(stdout), &result), nil, "error of %s", stdout)
			pruned.Add(result.Events)
		})
		servicetest.Is(t, pruned.Load(), 3001, "events pruned")
		servicetest.Is(t, left(t, s), [2]int{1, 1}, "events and RSVPs left")
	})
}

// Until it is swept a removed event is nowhere: in no list, count, copy or check, under no id, of no user, and without its texts.
func TestRemovedIsNowhere(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		kept := alice.Create("plaza", "kept", servicetest.When)
		tag := alice.Get("/api/event/spam").Header.Get("ETag")
		id := alice.Create("spam", "Unmistakable", servicetest.When)
		s.Database.Exec("UPDATE events SET description = 'Unmistakable, too' WHERE id = ?", id)
		bob.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		p.MustRun("event", "remove", id)
		servicetest.Is(t, rows(s.Database), [2]int{2, 3}, "events and RSVPs before a sweep")
		hasNone(t, s.Database, "Unmistakable", id)
		hidden := ""
		s.Database.Read("SELECT CAST(id AS text) FROM events WHERE world_id = ''", nil, &hidden)
		alice.Get("/api/event/spam", servicetest.IfNoneMatch(tag)).Is(304, "")
		alice.Delete("/api/event/"+id).IsError(404, "event_not_found")
		for _, args := range []string{"user show alice", "user show bob", "event list --world plaza", "event prune --before 2040-01-01T00:00:00Z --dry-run", "check"} {
			text, _ := p.Succeeds(strings.Fields(args)...)
			for _, trace := range []string{id, hidden, `"events":2`, `"rsvps":3`} {
				servicetest.Lacks(t, text, trace)
			}
		}
		target := servicetest.EmptyDatabases[map[string]string{"sqlite": "postgres", "postgres": "sqlite"}[s.Database.Dialect]](t)
		p.MustCopy(target.URL)
		servicetest.Is(t, rows(target), [2]int{1, 1}, "events and RSVPs of the copy")
		servicetest.Contains(t, p.MustRun("user", "remove", "bob"), `"rsvps":0`)
		servicetest.Is(t, left(t, s), [2]int{1, 1}, "events and RSVPs left")
		alice.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(kept, "kept", "", servicetest.When, "alice")))
	})
}

// Of what a user has created all goes, or what is of a world or a time, and nothing else. List, dry run and removal agree.
func TestEventRemoveCreated(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		id := alice.Session.UserID
		servicetest.AddEvents(s, "one", 7001, 620, 2030, "d") // more than one reading, in several batches
		servicetest.AddEvents(s, "two", 7002, 30, 2030, "d")
		s.Database.Exec("UPDATE events SET creator_id = ?, created_at = '2026-01-01 00:00:00+00:00'", id)
		s.Database.Exec("UPDATE events SET created_at = '2026-02-01 00:00:00.5+00:00' WHERE number % 2 = 0")
		own := alice.Create("three", "own", servicetest.When)
		kept := bob.Create("one", "kept", "2031-01-01T00:00:00Z")
		bob.Post("/api/event/join/"+own, "").Is(200, servicetest.Success)

		for _, test := range []struct {
			args   string
			events int
		}{
			{"--world three", 1}, {"--since 2026-02-01T00:00:00.5Z --world two", 15}, {"--since 2026-02-01T00:00:00.500001Z", 0}, {"--since 2026-02-01T00:00:00.5Z", 310},
			{"--world two", 15}, {"", 310},
		} {
			args := test.args
			byName, byID := append([]string{"--creator", "alice"}, strings.Fields(args)...), append([]string{"--user-id", id}, strings.Fields(args)...)
			lines, rsvps := listed(t, p, byName...), 0
			servicetest.Is(t, len(lines), test.events, "%s: events", args)
			servicetest.Is(t, listed(t, p, byID...), lines, "%s: by id", args)
			for i, e := range lines {
				rsvps += e.RSVPs
				if *e.Creator != "alice" || i > 0 && e.World == "one" && e.ID < lines[i-1].ID && lines[i-1].World == "one" {
					t.Errorf("%s: %v at %d", args, e, i)
				}
			}
			want := fmt.Sprintf(`{"events":%d,"rsvps":%d,"dryRun":`, len(lines), rsvps)
			servicetest.Is(t, p.MustRun(append([]string{"event", "remove", "--dry-run"}, byName...)...), want+"true}\n", "%s: the dry run prints", args)
			stdout, stderr := p.Succeeds(append([]string{"event", "remove"}, byID...)...)
			servicetest.Is(t, stdout, want+"false}\n", "%s: printed", args)
			servicetest.Is(t, servicetest.IsAudit(stderr), len(lines) > 0, "%s: an audit line: %s", args, stderr)
			servicetest.Is(t, len(listed(t, p, byName...)), 0, "%s: events left", args)
		}
		servicetest.Is(t, left(t, s), [2]int{1, 1}, "events and RSVPs left")
		bob.Get("/api/event/one").Is(200, servicetest.List(servicetest.Listed(kept, "kept", "", "2031-01-01T00:00:00.000Z", "bob")))

		if s.Database.Dialect == "postgres" {
			return // what is refused before the database is asked
		}
		for args, words := range map[string]string{
			"list": "needs one of", "list --since " + servicetest.When: "needs one of", "list --creator alice --user-id " + id: "needs one of",
			"list --creator nobody": "no such user", "list --user-id alice": "not an id", "list --creator alice --since yesterday": "--since",
			"remove": "needs one of", "remove --world one": "needs one of", "remove " + own + " --creator alice": "needs one of", "remove --creator nobody": "no such user",
			"remove " + kept + " --dry-run": "go with --creator", "remove " + kept + " --world one": "go with --creator",
			"remove --creator alice --world=": "--world", "remove --creator alice --since x": "--since", "remove --creator " + id: "no such user",
		} {
			p.Fails(words, append([]string{"event"}, strings.Fields(args)...)...)
		}
	})
}

// All worlds that have events are listed, with how many and when the last was created.
func TestWorldList(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		servicetest.Is(t, p.MustRun("world", "list"), "[]\n", "of nothing")
		var want []string
		for i := range 700 { // more than one reading
			servicetest.AddEvents(s, fmt.Sprintf("w%03d", i), 7000+i, 1+i%2, 2030, "d")
			want = append(want, fmt.Sprintf(`{"world":"w%03d","events":%d,"newest":"2026-01-01T00:00:00.%dZ"}`, i, 1+i%2, 1+i%2))
		}
		s.Database.Exec("UPDATE events SET created_at = '2026-01-01 00:00:00.1+00:00'")
		s.Database.Exec("UPDATE events SET created_at = '2026-01-01 00:00:00.2+00:00' WHERE number IN (SELECT max(number) FROM events GROUP BY world_id HAVING count(*) = 2)")
		p.MustRun("event", "remove", s.SignIn("alice").Create("gone", "n", servicetest.When))
		servicetest.Is(t, p.MustRun("world", "list"), "[\n"+strings.Join(want, ",\n")+"\n]\n", "worlds")
	})
}

// A removal that is interrupted says what is gone, and goes on when it is run again.
func TestEventRemoveInterrupted(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		alice := s.SignIn("alice")
		servicetest.AddEvents(s, "one", 7001, 5000, 2030, "d")
		s.Database.Exec("UPDATE events SET creator_id = ?", alice.Session.UserID)
		for _, args := range [][]string{{"event", "remove", "--creator", "alice"}, {"user", "remove", "alice", "--events"}} {
			var said servicetest.Log
			cut := p.Command(args...)
			cut.Stderr = &said
			before := s.Database.Count("events WHERE world_id = ''")
			servicetest.NoError(t, cut.Start())
			servicetest.Eventually(t, "some are gone", func() bool { return s.Database.Count("events WHERE world_id = ''") > before })
			cut.Process.Signal(syscall.SIGINT)
			cut.Wait()
			gone := s.Database.Count("events WHERE world_id = ''") - before
			if text := said.String(); cut.ProcessState.ExitCode() == 1 && (!strings.Contains(text, fmt.Sprintf("interrupted after %d events", gone)) || !strings.Contains(text, fmt.Sprintf("events=%d ", gone))) {
				t.Errorf("%d are gone: %s", gone, text)
			}
		}
		if s.Database.Count("users") == 1 {
			p.MustRun("user", "remove", "alice", "--events")
		}
		servicetest.Is(t, left(t, s), [2]int{}, "events and RSVPs left")
	})
}

// What commands have removed is deleted by whatever serves.
func TestServeSweepsEvents(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		servicetest.Crowd(t, s, "full", 3000, 20, 20)
		for _, id := range servicetest.EventIDs(t, s.SignIn("alice").Get("/api/event/full").Body)[:2] {
			p.MustRun("event", "remove", id)
		}
		p.ServeReady()
		servicetest.Within(t, time.Minute, "they are swept", func() bool { return s.Database.Count("events") == 1 })
		servicetest.Is(t, s.Database.Count("rsvps"), 20, "RSVPs")
	})
}

// --older-than goes by when events were scheduled, whenever they were created. A dry run changes nothing and leaves no line.
func TestEventPruneByAge(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		p := programOn(t, s.Database).With("LOG_FORMAT=json", "LOG_LEVEL=error")
		alice := s.SignIn("alice")
		ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
		const day = 24 * time.Hour
		alice.Create("plaza", "old", ago(90*day+time.Minute))
		alice.Create("square", "older", ago(200*day))
		kept := []string{alice.Create("plaza", "younger", ago(90*day-10*time.Minute)), alice.Create("plaza", "yesterday", ago(day+time.Minute)), alice.Create("plaza", "to come", servicetest.When)}
		s.Database.Exec("UPDATE events SET created_at = ? WHERE name <> 'old'", time.Now().Add(-1000*day).UTC())
		prune := func(printed string, lines int, args ...string) {
			t.Helper()
			began := time.Now()
			stdout, stderr := p.Succeeds(append([]string{"event", "prune"}, args...)...)
			servicetest.Is(t, stdout, printed+"\n", "%q prints", args)
			servicetest.Is(t, strings.Count(stderr, `"audit"`), lines, "audit lines of %q", args)
			if lines == 0 {
				return
			}
			var line struct {
				Msg, Action   string
				Before        time.Time
				Events, RSVPs int
			}
			if err := json.Unmarshal([]byte(stderr), &line); err != nil || line.Action != "event prune" || line.Events != 1 || line.RSVPs != 1 ||
				line.Before.Before(began.Add(-90*day-time.Second)) || line.Before.After(time.Now().Add(-90*day)) {
				t.Errorf("%q: %v %s", args, err, stderr)
			}
		}
		prune(`{"events":2,"rsvps":2,"dryRun":true}`, 0, "--older-than", "90d", "--dry-run")
		prune(`{"events":1,"rsvps":1,"dryRun":false}`, 1, "--older-than", "90d", "--world", "square")
		prune(`{"events":1,"rsvps":1,"dryRun":false}`, 1, "--older-than", "90d")
		prune(`{"events":0,"rsvps":0,"dryRun":false}`, 0, "--older-than", "90d")
		servicetest.Is(t, servicetest.EventIDs(t, alice.Get(servicetest.Plaza).Body), kept, "left")
		prune(`{"events":2,"rsvps":2,"dryRun":true}`, 0, "--older-than", "1d", "--dry-run")
	})
}

// A sweep goes on from batch to batch, within an event and from event to event. While an older transaction is open, as that of a
// backup, no batch reads again what those before it have deleted.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	const rsvps, events = 10_000, 3000
	s := servicetest.Start(t, servicetest.Postgres(t))
	servicetest.Crowd(t, s, "w", rsvps)
	servicetest.AddEvents(s, "w", 7001, events, 2020, "d")
	s.Database.Exec("UPDATE events SET id = gen_random_uuid(), world_id = ''")
	servicetest.BeginTx(t, s.Database, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT FROM users")
	sweeper := servicetest.Must(models.Open(models.Options{URL: s.Database.With("application_name=sweep").URL, MaxConns: 1, Timeout: time.Minute, MaxWait: 20 * time.Second}))(t)
	servicetest.Is(t, sweeper.SweepEvents(t.Context()), nil, "error")
	sweeper.Close()
	servicetest.Eventually(t, "its connection has ended, and its counts are in", func() bool {
		return s.Database.Count("pg_stat_activity WHERE application_name = 'sweep'") == 0
	})
	servicetest.Is(t, rows(s.Database), [2]int{}, "events and RSVPs left")
	for index, n := range map[string]int{"rsvps_list": rsvps, "events_list": events} {
		var read int
		s.Database.Read("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = ?", []any{index}, &read)
		if read < n || read > 6*n {
			t.Errorf("%d entries of %s were read, for %d rows", read, index, n)
		}
	}
}

// An event whose move is committed just before it would be deleted stays, be it small or large.
func TestEventPruneAfterEdit(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t)) // SQLite has one writer
	p := programOn(t, s.Database)
	servicetest.Crowd(t, s, "w", 700, 20)
	for _, id := range servicetest.EventIDs(t, s.SignIn("alice").Get("/api/event/w").Body) {
		s.Database.Exec("UPDATE events SET scheduled_at = ?", servicetest.At(2040))
		s.Database.Exec("UPDATE events SET scheduled_at = ? WHERE id = ?", servicetest.At(2030), id)
		tx := servicetest.BeginTx(t, s.Database, "UPDATE events SET scheduled_at = '2035-01-01T00:00:00Z' WHERE id = '"+id+"'") // when pruning stops
		servicetest.CommitUnder(t, s.Database, tx, 0, func() {
			servicetest.Contains(t, p.MustRun("event", "prune", "--before", "2035-01-01T00:00:00Z"), `{"events":0,`)
		})
		servicetest.Is(t, s.Database.Count("events WHERE id = ?", id), 1, "events %s, which was moved", id)
	}
}

// A list that a client waits for comes when a command has changed it. PostgreSQL tells the service at once which list it is.
func TestCommandsWakeWhoWaits(t *testing.T) {
	eachBeside(t, func(t *testing.T, s *servicetest.Service, p *servicetest.Program) {
		postgres := s.Database.Dialect == "postgres"
		received := func() float64 {
			if !postgres {
				return 0
			}
			return servicetest.Metric(t, s, "worldevents_hints_received_total")
		}
		if postgres {
			s.Database.AwaitListeners(t, 1)
		}
		bob := s.SignIn("bob")
		id := bob.Create("plaza", "n", servicetest.When)
		s.SignIn("alice").Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
		bob.Create("plaza", "old", "2020-01-01T00:00:00Z")
		for _, args := range [][]string{
			{"user", "rename", "alice", "anna"}, {"user", "remove", "anna"}, {"event", "edit", id, "--name", "m"},
			{"event", "prune", "--before", "2025-01-01T00:00:00Z"}, {"event", "remove", id},
		} {
			tag, before := bob.Get(servicetest.Plaza).Header.Get("ETag"), received()
			res := servicetest.Await(t, s, bob, servicetest.Plaza+"?wait=50", tag)
			p.MustRun(args...)
			r := servicetest.Come(t, res)
			r.Is(200, bob.Get(servicetest.Plaza).Body)
			servicetest.Is(t, r.Header.Get("ETag") == tag, false, "%q: the same list", args)
			if postgres {
				servicetest.Eventually(t, fmt.Sprintf("a hint of %q comes", args), func() bool { return received() > before })
			}
		}
	})
}
