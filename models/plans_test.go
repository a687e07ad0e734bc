package models_test

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// Every statement of the service, and of the commands beside it, looks rows up in an index. One that reads a whole table
// takes no time in a test, and grows with the years.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := servicetest.New(t)
		servicetest.Crowd(t, s, "crowded", 600, 2)
		var mutex sync.Mutex
		seen := make(map[string]bool)
		s.Store.EachStatement(func(sql string) {
			mutex.Lock()
			defer mutex.Unlock()
			seen[sql] = true
		})
		servicetest.UseAll(t, s)
		if len(seen) < 40 {
			t.Errorf("%d statements", len(seen))
		}
		for _, sql := range s.Store.ListStatements() {
			seen[sql] = true
			for _, step := range planInSQLite(t, s.Database, sql) {
				if strings.Contains(step, "ORDER BY") {
					t.Errorf("%s\n%s", step, sql)
				}
			}
		}
		for sql := range seen {
			for _, step := range planInSQLite(t, s.Database, sql) {
				if scanInSQLite.MatchString(step) {
					t.Errorf("%s\n%s", step, sql)
				}
			}
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		// A sequential scan is then the last resort of the planner, whatever the statistics.
		server := servicetest.NewPostgresServer(t, "session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0",
			"auto_explain.log_nested_statements=on", "enable_seqscan=off")
		migrated(t, server)
		s := servicetest.Start(t, server.Database())
		servicetest.Crowd(t, s, "crowded", 600, 2)
		before := len(server.Log())
		servicetest.UseAll(t, s)
		plans := strings.Split(server.Log()[before:], " LOG:  duration: ")[1:]
		if len(plans) < 60 {
			t.Errorf("%d plans: %s", len(plans), server.Log())
		}
		for _, plan := range plans {
			if scanInPostgres.MatchString(plan) || strings.Contains(plan, "usernames") && strings.Contains(plan, "Sort") {
				t.Error(plan)
			}
		}
	})
}

// A step of a plan that reads a table, or one of its indexes, from end to end. The table incarnation has one row.
var (
	scanInSQLite   = regexp.MustCompile(`^SCAN (users|u|sessions|events|e|rsvps|r)\b`)
	scanInPostgres = regexp.MustCompile(`Seq Scan on ([^i]|i[^n])|Index (Only )?Scan (Backward )?using [^\n]*\n(\s+Filter|\s+->|[^\s]|$)`)
)

func planInSQLite(t *testing.T, db *servicetest.Database, sql string) (steps []string) {
	t.Helper()
	rows, err := db.DB.Query("EXPLAIN QUERY PLAN "+sql, slices.Repeat([]any{nil}, strings.Count(sql, "?"))...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		servicetest.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	return steps
}

// PostgreSQL vacuums the tables that lists read early enough for new events: what was written since the last vacuum is read
// from the table, too, and not from the index alone.
func TestNewRowsAreVacuumed(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	for _, table := range []string{"events", "rsvps"} {
		var inserted, deleted float64
		db.Read(`SELECT coalesce(max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_insert_scale_factor'), '1'),
				coalesce(max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor'), '1')
			FROM pg_class, pg_options_to_table(reloptions) WHERE oid = CAST(? AS regclass)`, []any{table}, &inserted, &deleted)
		if inserted > 0.01 || deleted > 0.02 {
			t.Errorf("%s waits for a share of %g inserted or %g deleted", table, inserted, deleted)
		}
	}
}

// A table of marks grows and shrinks by the second, and PostgreSQL may not have looked at it yet, or while it was empty: what is asked of it
// reads the marks that matter and no others, whatever there is.
func TestQuestionsOfManyMarks(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0",
		"auto_explain.log_analyze=on", "autovacuum=off")
	store := migrated(t, server)
	db := server.Database()
	ask := func(begin models.Moment) {
		t.Helper()
		answer := servicetest.Must(store.ChangedSince(t.Context(), begin, "world 1", nil))(t)
		servicetest.Is(t, answer.Changed, false, "the world has changed")
		worlds := servicetest.Must(store.WorldsSince(t.Context(), begin))(t)
		servicetest.Is(t, worlds.All || len(worlds.Names) > 0, false, "worlds have changed: %v", worlds)
	}
	moment := func() models.Moment { return servicetest.Must(store.WorldsSince(t.Context(), models.Moment{}))(t).Now }
	for _, looked := range []string{"never", "while it was empty"} {
		if looked != "never" {
			db.Exec("TRUNCATE changes")
			db.Exec("VACUUM ANALYZE changes")
			begin := moment()
			for range 2 {
				ask(begin) // plans are made, and kept
			}
		}
		db.Exec("INSERT INTO changes SELECT 'world ' || n / 700, (1 + n % 700)::text::xid8 FROM generate_series(0, 20999) n") // long ago
		running := servicetest.BeginTx(t, db, "INSERT INTO changes VALUES ('world 1')")                                       // and still running
		first := len(server.Log())
		begin, before := moment(), len(server.Log())
		for range 3 {
			ask(begin)
		}
		plans := strings.Split(server.Log()[before:], " LOG:  duration: ")[1:]
		if len(plans) < 6 {
			t.Errorf("%d plans: %s", len(plans), server.Log())
		}
		for _, plan := range plans {
			if strings.Contains(plan, "Seq Scan on changes") || strings.Contains(plan, "Sort") || filtered.MatchString(plan) {
				t.Errorf("PostgreSQL has looked %s: %s", looked, plan)
			}
		}
		for _, step := range stepRows.FindAllStringSubmatch(server.Log()[first:], -1) {
			if rows, _ := strconv.Atoi(step[1]); rows > 10_002 { // the moment, the worlds that are named, and one more
				t.Errorf("PostgreSQL has looked %s: %d rows are read: %s", looked, rows, server.Log()[first:])
			}
		}
		running.Rollback()
	}
}

// filtered finds a step that reads marks which it then leaves out.
var filtered = regexp.MustCompile(`on changes.*\n(\s+Index Cond.*\n)?\s+Filter`)

// stepRows finds how many rows a step of a plan had.
var stepRows = regexp.MustCompile(`actual time=\S+ rows=(\d+)`)

// Whether the caller is active is asked by the statement that reads the list, of an empty one, too. By a second statement somebody who was
// blocked at the first, and is no more, would have an empty list of everybody's.
func TestEmptyListIsOneStatement(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "log_statement=all")
	store := migrated(t, server)
	alice := addCaller(t, store, "alice")
	read := func() error {
		_, err := store.ReadList(t.Context(), models.ListOptions{WorldID: "w"}, alice, new(textSink))
		return err
	}
	before := len(server.Log())
	servicetest.NoError(t, read())
	servicetest.Is(t, strings.Count(server.Log()[before:], " LOG:  execute "), 1, "statements in %s", server.Log()[before:])
	server.Database().Exec("UPDATE users SET blocked_at = now()")
	servicetest.Is(t, errors.Is(read(), models.ErrSignedOut), true, "who is blocked is signed out")
}

// The events of a world that somebody has joined are looked up by what they have joined: a world has many more, and PostgreSQL would
// go through the RSVPs for each of them.
func TestJoinedEventsOfOneWorld(t *testing.T) {
	t.Parallel()
	server := servicetest.NewPostgresServer(t, "session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0", "autovacuum=off")
	store := migrated(t, server)
	for _, analyzed := range []bool{false, true} {
		if db := server.Database(); analyzed { // one world of 5,000 events among 500 of 10
			db.Exec(`INSERT INTO users (id, username, created_at) VALUES (gen_random_uuid(), 'alice', now())`)
			db.Exec(`INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
				SELECT gen_random_uuid(), CASE WHEN n <= 5000 THEN 'big' ELSE n % 500 || '' END, 'n', '', '2100-01-01Z', now() FROM generate_series(1, 10000) n`)
			db.Exec(`INSERT INTO rsvps (event_number, created_at, user_number, username) SELECT e.number, now(), u.number, u.username FROM events e, users u LIMIT 500`)
			db.Exec(`ANALYZE`)
		}
		for _, past := range []bool{false, true} {
			before := len(server.Log())
			_, _, err := store.OwnEvents(t.Context(), models.OwnFilter{User: models.ID{1}, Joined: true, World: "big", Past: past, Limit: 50})
			servicetest.NoError(t, err)
			plan := server.Log()[before:]
			if !strings.Contains(plan, "rsvps_pkey") || strings.Contains(plan, "events_list") {
				t.Errorf("analyzed %v, past %v: %s", analyzed, past, plan)
			}
		}
	}
}
