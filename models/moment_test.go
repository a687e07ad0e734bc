package models_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// A list that was read at a moment is still the same as long as its world has not changed since, whatever was done meanwhile, by whom, and
// in which order transactions began and ended. The other way round a world of which nothing was touched has not changed.
func TestMoments(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Database.DB.SetMaxOpenConns(8)
		s.Database.DB.SetMaxIdleConns(8) // a new one takes PostgreSQL longer than what it is for
		rapid.Check(t, func(t *rapid.T) {
			h := begun(t, s)
			defer h.end()
			t.Repeat(map[string]func(*rapid.T){
				"": h.check, "write": h.write, "look": h.look, "prune": h.prune,
				"begin": h.begin, "write inside": h.writeInside, "finish": h.finish,
			})
		})
	})
}

// history is a random one.
type history struct {
	*rapid.T
	s          *servicetest.Service
	number     int // among all histories
	isPostgres bool
	open       []*sql.Tx
	seen       []sighting
}

// sighting is a list of a world as it was at a moment.
type sighting struct {
	world, list string
	moment      models.Moment
}

var histories atomic.Int64

// begun is a history with two events of two users each.
func begun(t *rapid.T, s *servicetest.Service) *history {
	h := &history{T: t, s: s, number: int(histories.Add(1)), isPostgres: s.Database.Dialect == "postgres"}
	for i := range 2 {
		s.Database.Exec(h.insertEvent("INSERT", h.eventID(i), h.worldID(i)))
		s.Database.Exec(h.insertUser(i))
	}
	s.Database.Exec(h.join("u.id IN ('" + h.userID(0) + "', '" + h.userID(1) + "')"))
	return h
}

func (h *history) eventID(i int) string {
	return fmt.Sprintf("0000%04x-0000-7000-8000-00000000000%d", h.number, i)
}
func (h *history) userID(i int) string {
	return fmt.Sprintf("0000%04x-0000-7000-9000-00000000000%d", h.number, i)
}
func (h *history) worldID(i int) string { return fmt.Sprintf("h%d-w%d", h.number, i) }

const historic = "'2030-01-02 03:04:05+00:00'"

func (h *history) insertEvent(insert, id, world string) string {
	return insert + " INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES ('" + id + "', '" + world + "', 'n', '', " + historic + ", " + historic + ")"
}

func (h *history) insertUser(i int) string {
	return fmt.Sprintf("INSERT INTO users (id, username, created_at) VALUES ('%s', 'h%d u%d', %s) ON CONFLICT DO NOTHING", h.userID(i), h.number, i, historic)
}

// join has users join the events of this history.
func (h *history) join(condition string) string {
	return "INSERT INTO rsvps (event_number, created_at, user_number, username) SELECT e.number, " + historic + ", u.number, u.username FROM events e, users u " +
		"WHERE e.id IN ('" + h.eventID(0) + "', '" + h.eventID(1) + "') AND " + condition + " ON CONFLICT DO NOTHING"
}

func (h *history) end() {
	for _, tx := range h.open {
		tx.Rollback()
	}
}

// statement is something that changes a list, or does not.
func (h *history) statement(t *rapid.T, alone bool) string {
	one := func(what string) int { return rapid.IntRange(0, 1).Draw(t, what) }
	event, world, of := h.eventID(one("event")), h.worldID(one("world")), one("user")
	user := h.userID(of)
	all := []string{
		h.insertEvent("INSERT", event, world) + " ON CONFLICT DO NOTHING",
		"DELETE FROM events WHERE id = '" + event + "'",
		"UPDATE events SET world_id = '" + world + "' WHERE id = '" + event + "'",
		"UPDATE events SET world_id = '" + h.worldID(0) + "' WHERE id = '" + event + "'",
		"UPDATE events SET world_id = '" + h.worldID(1) + "' WHERE id = '" + event + "'",
		"UPDATE events SET world_id = '' WHERE id = '" + event + "'",
		"UPDATE events SET name = name || 'x' WHERE id = '" + event + "'",
		h.insertUser(of),
		h.join("e.id = '" + event + "' AND u.id = '" + user + "'"),
		h.join("u.id = '" + user + "'"),
		"DELETE FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = '" + event + "')",
		"DELETE FROM rsvps WHERE user_number = (SELECT number FROM users WHERE id = '" + user + "')",
		"UPDATE users SET username = username || 'x' WHERE id = '" + user + "'",
		"DELETE FROM users WHERE id = '" + user + "'",
	}
	switch {
	case h.isPostgres && alone: // nobody could read until their end
		all = append(all, "TRUNCATE rsvps")
		if len(h.open) == 0 { // who began before would see no events (PostgreSQL, "Caveats" of MVCC)
			all = append(all, "ALTER TABLE events ALTER name TYPE text USING name || 'y'")
		}
	case !h.isPostgres:
		other := h.eventID(one("other"))
		all = append(all, h.insertEvent("INSERT OR REPLACE", event, world),
			"UPDATE OR REPLACE events SET id = '"+other+"' WHERE id = '"+event+"'",
			"UPDATE OR REPLACE events SET number = (SELECT number FROM events WHERE id = '"+other+"') WHERE id = '"+event+"'")
	}
	return rapid.SampledFrom(all).Draw(t, "statement")
}

// write writes by hand. Where an open transaction is in the way nothing is written.
func (h *history) write(t *rapid.T) {
	tx := h.transaction()
	if _, err := tx.Exec(h.statement(t, true)); err != nil {
		tx.Rollback()
		return
	}
	tx.Commit()
}

func (h *history) noError(err error) {
	if err != nil {
		h.Fatal(err)
	}
}

func (h *history) transaction() *sql.Tx {
	tx, err := h.s.Database.DB.Begin()
	h.noError(err)
	if h.isPostgres {
		tx.Exec("SET LOCAL lock_timeout = '2ms'")
	}
	return tx
}

// begin opens a transaction, that of PostgreSQL with a number of its own or yet without one. One for which the database stays what it was
// at its first statement writes after others whose writes it does not see.
func (h *history) begin(t *rapid.T) {
	if !h.isPostgres || len(h.open) == 3 {
		return
	}
	tx := h.transaction()
	if rapid.Bool().Draw(t, "repeatable") {
		tx.Exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	}
	if rapid.Bool().Draw(t, "numbered") {
		tx.Exec("SELECT pg_current_xact_id()")
	}
	h.open = append(h.open, tx)
}

func (h *history) writeInside(t *rapid.T) {
	if len(h.open) > 0 {
		tx := rapid.SampledFrom(h.open).Draw(t, "transaction")
		tx.Exec("SAVEPOINT s")
		if _, err := tx.Exec(h.statement(t, false)); err != nil {
			tx.Exec("ROLLBACK TO s")
		}
	}
}

func (h *history) finish(t *rapid.T) {
	if len(h.open) > 0 {
		i := rapid.IntRange(0, len(h.open)-1).Draw(t, "transaction")
		if rapid.Bool().Draw(t, "commit") {
			h.open[i].Commit()
		} else {
			h.open[i].Rollback()
		}
		h.open = append(h.open[:i], h.open[i+1:]...)
	}
}

// look reads a list.
func (h *history) look(t *rapid.T) {
	world := h.worldID(rapid.IntRange(0, 1).Draw(t, "world"))
	list, moment := h.read(world)
	if moment.IsZero() {
		h.Fatal("a list without a moment")
	}
	h.seen = append(h.seen, sighting{world, list, moment})
	h.seen = h.seen[max(0, len(h.seen)-4):]
}

func (h *history) read(world string) (string, models.Moment) {
	text := new(textSink)
	list, err := h.s.Store.ReadList(h.Context(), models.ListOptions{WorldID: world}, models.Caller{}, text)
	h.noError(err)
	return text.String(), list.Moment
}

// prune lets the horizon move on as if ten minutes had passed.
func (h *history) prune(*rapid.T) {
	long := "0"
	if h.isPostgres {
		long = "now() - interval '1 hour'"
	}
	h.s.Database.Exec("UPDATE incarnation SET next_since = " + long)
	_, err := h.s.Store.PruneChanges(h.Context())
	h.noError(err)
}

// check holds all that was ever seen against what is there.
func (h *history) check(*rapid.T) {
	now := make(map[string]string)
	for _, seen := range h.seen {
		if _, ok := now[seen.world]; !ok {
			now[seen.world], _ = h.read(seen.world)
		}
		answer, err := h.s.Store.ChangedSince(h.Context(), seen.moment, seen.world, nil)
		h.noError(err)
		worlds, err := h.s.Store.WorldsSince(h.Context(), seen.moment)
		h.noError(err)
		if named := worlds.All || slices.Contains(worlds.Names, seen.world); named != answer.Changed {
			h.Fatalf("since %v %s has changed: %t, and of the worlds these have: %+v", seen.moment, seen.world, answer.Changed, worlds)
		}
		if !answer.Changed && now[seen.world] != seen.list {
			h.Fatalf("at %v the list of %s was %q, now it is %q, and the world has not changed", seen.moment, seen.world, seen.list, now[seen.world])
		}
		untouched, err := h.s.Store.ChangedSince(h.Context(), answer.Now, seen.world, nil)
		if err != nil || untouched.Changed {
			h.Fatalf("nothing was done since %v, and the world has changed: %v", answer.Now, err)
		}
	}
}

// textSink has a list as a text.
type textSink struct{ strings.Builder }

func (s *textSink) Begin() { s.Reset() }

func (s *textSink) Event(v *models.ListedEvent) (more bool) {
	fmt.Fprintf(s, "%v %s %s %v\n%s", v.ID, v.Name, v.Description, v.ScheduledAt.UTC(), v.Usernames)
	return true
}

// Pruning deletes marks from before the horizon, in batches, and what a dump brought along from a server that has counted further. Where
// nothing is to be done it writes nothing: it takes no transaction number.
func TestPruneChanges(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "fsync=off", "autovacuum=off") // a vacuum takes numbers of transactions, too
	store := migrated(t, server)
	db := server.Database()
	prune := func(want int64) {
		t.Helper()
		servicetest.Is(t, servicetest.Must(store.PruneChanges(t.Context()))(t), want, "marks are deleted")
	}
	number := func() (n string) {
		db.Read("SELECT CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text)", nil, &n)
		return n
	}
	wroteNothing := func(when string) {
		t.Helper()
		before := number()
		prune(0)
		servicetest.Is(t, number(), before, "%s: the next transaction number", when)
	}
	prune(0) // begins
	wroteNothing("at first")
	db.Exec("INSERT INTO changes SELECT 'w' || n FROM generate_series(1, 25000) n")
	wroteNothing("while marks are needed")
	passes := func() { db.Exec("UPDATE incarnation SET next_since = next_since - interval '11 minutes'") }
	passes()
	prune(0) // the horizon is where counting began, and the next one is here
	wroteNothing("after a horizon that has nothing before it")
	passes()
	prune(25000)
	wroteNothing("once they are gone")
	db.Exec("INSERT INTO changes SELECT 'w', '999999999'")
	prune(0)
	servicetest.Is(t, db.Count("changes"), 0, "marks of another server are left")
	wroteNothing("after the marks of another server")
	since := func(m models.Moment) models.Changes {
		t.Helper()
		return servicetest.Must(store.ChangedSince(t.Context(), m, "w", nil))(t)
	}
	before := since(models.Moment{}).Now
	db.Exec("UPDATE incarnation SET next = '999999999'")
	prune(0)
	servicetest.Is(t, since(before).Changed, true, "after the horizon of another server the world has changed")
	wroteNothing("after the horizon of another server")
	db.Exec("DELETE FROM incarnation")
	prune(0)
	servicetest.Is(t, since(models.Moment{}).Now.IsZero(), false, "an incarnation that is gone stays so")
}

// A file forgets marks, too, and where nothing is to be done pruning does not write to it.
func TestPruneChangesOfFile(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	store := openStore(t, db.URL)
	conn := servicetest.Must(db.DB.Conn(t.Context()))(t)
	defer conn.Close()
	written := func() (version int) { // changes when another connection has written
		servicetest.NoError(t, conn.QueryRowContext(t.Context(), "PRAGMA data_version").Scan(&version))
		return version
	}
	prune := func(want int64, writes bool) {
		t.Helper()
		before := written()
		servicetest.Is(t, servicetest.Must(store.PruneChanges(t.Context()))(t), want, "marks are deleted")
		servicetest.Is(t, written() != before, writes, "it has written")
	}
	passes := func(minutes int) { db.Exec("UPDATE incarnation SET next_since = next_since - ?", 60*minutes) }
	alice := addCaller(t, store, "alice")
	ask := func(m models.Moment, world string, want bool) (now models.Moment) {
		t.Helper()
		answer := servicetest.Must(store.ChangedSince(t.Context(), m, world, nil))(t)
		servicetest.Is(t, answer.Changed, want, "%s has changed since %v", world, m)
		return answer.Now
	}
	passes(60)
	prune(0, false) // nothing was ever written
	first := ask(models.Moment{}, "old", true)
	createEvent(t, store, alice, "old")
	db.Exec("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) INSERT INTO changes (world_id) SELECT 'w' || i FROM n")
	second := ask(first, "old", true)
	prune(0, true) // the next horizon is here
	createEvent(t, store, alice, "young")
	passes(9)
	prune(0, false)
	ask(first, "elsewhere", false)
	passes(2)
	prune(25001, true)
	servicetest.Is(t, db.Count("changes WHERE world_id <> 'young'"), 0, "old marks are left")
	servicetest.Is(t, db.Count("changes"), 1, "marks are left")
	ask(first, "old", true)
	ask(first, "elsewhere", true)
	ask(second, "old", false)
	third := ask(second, "young", true)
	passes(11)
	prune(1, true)
	ask(third, "young", false)
	passes(60)
	prune(0, false) // nobody has written since
	db.Exec("DELETE FROM incarnation")
	ask(third, "young", true)
	createEvent(t, store, alice, "new")
	prune(1, true) // nothing is compared with what was before
	ask(third, "elsewhere", true)
	fourth := ask(third, "new", true)
	ask(fourth, "new", false)
	prune(0, false)
}

// After a crash of one of its processes a server has emptied the marks and gives out the numbers of transactions again: what it said
// before means nothing. Nor does what it says while a transaction runs that was prepared before: that one's marks are gone. A server that is
// stopped keeps marks and horizon, so there only the moment itself tells that another start counted.
func TestMomentsAfterCrash(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "fsync=off", "max_prepared_transactions=1")
	store := migrated(t, server)
	changed := func(m models.Moment, want bool) {
		t.Helper()
		answer := servicetest.Must(store.ChangedSince(t.Context(), m, "w", []models.Caller{{UserID: models.ID{1}}}))(t)
		servicetest.Is(t, answer.Changed, want, "the world has changed since %v", m)
		servicetest.Is(t, len(answer.SignedOut), 1, "signed out are")
	}
	now := func() (now models.Moment) {
		servicetest.Eventually(t, "an answer", func() bool {
			answer, err := store.ChangedSince(t.Context(), models.Moment{}, "w", nil)
			now = answer.Now
			return err == nil
		})
		return now
	}
	first := now()
	changed(first, false)
	changed(models.Moment{}, true)
	db := server.Database()
	db.Exec("BEGIN; INSERT INTO changes VALUES ('w'); PREPARE TRANSACTION 'p'")
	server.CrashBackend()
	servicetest.Eventually(t, "a crash, after which there is no moment", func() bool { return now().IsZero() })
	changed(first, true)
	prune := func() {
		t.Helper()
		servicetest.Must(store.PruneChanges(t.Context()))(t)
	}
	prune()
	second := now()
	changed(first, true)
	changed(second, true)
	for range 3 { // with horizons of the time since
		db.Exec("UPDATE incarnation SET next_since = next_since - interval '1 day'")
		prune()
		changed(now(), true)
	}
	db.Exec("COMMIT PREPARED 'p'")
	third := now()
	changed(second, true)
	changed(third, false)
	server.Restart()
	fourth := now()
	changed(third, true)
	changed(fourth, false)
}

// Who changes the RSVPs of an event while that moves to another world changes the list of the world in which the event is then, whichever
// of the two comes first, and whether or not an event that was removed comes back.
func TestMomentsOfMovedEvents(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	s.Database.DB.SetMaxOpenConns(4)
	rapid.Check(t, func(t *rapid.T) {
		h := begun(t, s)
		defer h.end()
		s.Database.Exec(h.insertUser(2))
		s.Database.Exec("DELETE FROM events WHERE id = '" + h.eventID(1) + "'") // whose world would have a mark in any case
		if rapid.Bool().Draw(t, "removed") {
			s.Database.Exec("UPDATE events SET world_id = '' WHERE id = '" + h.eventID(0) + "'")
		}
		change := rapid.SampledFrom([]string{
			h.join("u.id = '" + h.userID(2) + "'"),
			"DELETE FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = '" + h.eventID(0) + "')",
			"UPDATE users SET username = username || 'x' WHERE id = '" + h.userID(0) + "'",
			"DELETE FROM users WHERE id = '" + h.userID(0) + "'",
		}).Draw(t, "change")
		rsvps, mover := h.transaction(), h.transaction()
		h.open = append(h.open, rsvps, mover)
		if rapid.Bool().Draw(t, "repeatable") {
			rsvps.Exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
			rsvps.Exec("SELECT pg_current_xact_id()")
		}
		move := func() {
			if _, err := mover.Exec("UPDATE events SET world_id = '" + h.worldID(1) + "' WHERE id = '" + h.eventID(0) + "'"); err == nil {
				mover.Commit()
			}
			list, moment := h.read(h.worldID(1))
			h.seen = append(h.seen, sighting{h.worldID(1), list, moment})
		}
		switch rapid.SampledFrom([]string{"before", "beside", "after"}).Draw(t, "move") {
		case "before":
			move()
			rsvps.Exec(change)
		case "beside":
			rsvps.Exec("SET LOCAL lock_timeout = '20s'")
			mover.Exec("UPDATE events SET world_id = world_id || 'x' WHERE id = '" + h.eventID(0) + "'") // takes its locks
			changed := make(chan bool)
			go func() {
				rsvps.Exec(change)
				close(changed)
			}()
			for waits := false; !waits; {
				select {
				case <-changed:
					waits = true // for nobody
				default:
					waits = s.Database.Count("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
				}
			}
			move()
			<-changed
		case "after":
			rsvps.Exec(change)
			move() // which gives up when it has waited 2 ms
		}
		rsvps.Commit() // which undoes what has failed
		h.check(t)
	})
}

// An event that moves to another world stops those who change its own RSVPs, and nobody else.
func TestMoveOfOneEvent(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	s := openStore(t, db.URL)
	alice, bob := addCaller(t, s, "alice"), addCaller(t, s, "bob")
	createEvent(t, s, alice, "from")
	others := []models.ID{createEvent(t, s, alice, "from"), createEvent(t, s, alice, "to"), createEvent(t, s, alice, "elsewhere")}
	servicetest.BeginTx(t, db, "UPDATE events SET world_id = 'to' WHERE number = (SELECT min(number) FROM events)")
	for i, world := range []string{"from", "to", "elsewhere"} {
		servicetest.NoError(t, s.JoinEvent(t.Context(), bob, others[i], nil))
		servicetest.Must(s.LeaveEvent(t.Context(), alice, others[i]))(t)
		createEvent(t, s, bob, world)
		servicetest.Must(s.RemoveEvent(t.Context(), others[i]))(t)
	}
}

// An event whose place another one takes is gone from its world, though SQLite fires no trigger for deletes then.
func TestMomentsOfReplacedEvents(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	s := openStore(t, db.URL)
	alice := addCaller(t, s, "alice")
	db.DB.SetMaxOpenConns(1)
	db.Exec("PRAGMA foreign_keys = off")
	const other, replaced = "world_id = 'other'", "FROM events WHERE world_id = 'replaced'"
	for _, statement := range []string{
		"INSERT OR REPLACE INTO events SELECT number, id, 'other', creator_id, name, description, scheduled_at, created_at, request_hash " + replaced,
		"UPDATE OR REPLACE events SET number = (SELECT number " + replaced + ") WHERE " + other,
		"UPDATE OR REPLACE events SET rowid = (SELECT number " + replaced + ") WHERE " + other,
		"UPDATE OR REPLACE events SET id = (SELECT id " + replaced + ") WHERE " + other,
	} {
		db.Exec("DELETE FROM events")
		createEvent(t, s, alice, "other")
		createEvent(t, s, alice, "replaced")
		before := servicetest.Must(s.WorldsSince(t.Context(), models.Moment{}))(t)
		db.Exec(statement)
		answer := servicetest.Must(s.ChangedSince(t.Context(), before.Now, "replaced", nil))(t)
		servicetest.Is(t, answer.Changed, true, "%s: the world has changed", statement)
		servicetest.Is(t, db.Count(replaced[len("FROM "):]), 0, "%s: events left", statement)
	}
}
