// Package years holds the service against a database that has been in use for long.
package years

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.MainLong(m)) }

// What has come together in years: 40,000 users with 50,000 events of 20 RSVPs each in 500 worlds, sessions, and marks.
var years = []string{
	`INSERT INTO users (id, username, created_at, issuer, subject, folded, skeleton)
		SELECT ('00000000-0000-7000-a000-' || lpad(n::text, 12, '0'))::uuid, 'user ' || n, '2030-01-01 00:00:00+00',
			CASE WHEN n % 2 = 0 THEN 'https://login.example.org' END, CASE WHEN n % 2 = 0 THEN 'subject ' || n END, 'user ' || n, 'user ' || n
		FROM generate_series(1, 40000) n`,
	`INSERT INTO sessions (id, user_id, handle_hash, created_at, device, network, provider_sid, revoked_at, refreshed_at, expires_at, token_hash, spent)
		SELECT gen_random_uuid(), id, sha256(id::text::bytea), now(), 'Firefox', '192.0.2.0', CASE WHEN number % 3 = 0 THEN 'sid ' || number END,
			CASE WHEN number % 20 > 0 THEN now() END, now(), now() + interval '30 days', sha256(id::text::bytea), ''
		FROM users`,
	`INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
		SELECT ('00000000-0000-7000-b000-' || lpad(n::text, 12, '0'))::uuid, 'world ' || n % 500,
			('00000000-0000-7000-a000-' || lpad((1 + n % 40000)::text, 12, '0'))::uuid, 'event', 'of many', timestamptz '2040-01-01 00:00:00+00' + n * interval '1 minute', '2030-01-01 00:00:00+00'
		FROM generate_series(1, 50000) n`,
	`INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT e.number, '2030-01-01 00:00:00+00', u.number, u.username
		FROM events e CROSS JOIN generate_series(0, 19) n JOIN users u ON u.id = ('00000000-0000-7000-a000-' || lpad((1 + (e.number * 20 + n) % 40000)::text, 12, '0'))::uuid`,
	"INSERT INTO blocked_identities SELECT sha256(n::text::bytea), now() FROM generate_series(1, 5000) n",
	"INSERT INTO changes SELECT 'world ' || n % 500, (1 + n / 500)::text::xid8 FROM generate_series(0, 99999) n ON CONFLICT DO NOTHING",
}

// triggers changes those of all tables that have some.
func triggers(action string) (statements []string) {
	for _, table := range []string{"users", "sessions", "events", "rsvps"} {
		statements = append(statements, "ALTER TABLE "+table+" "+action)
	}
	return statements
}

// A table that grows is read from end to end. Each of the others has one row.
var wholeTable = regexp.MustCompile(`Seq Scan on (users|sessions|events|rsvps|changes|blocked_identities)\b`)

// Where PostgreSQL expects a user to have joined about as many events as there are, it reads all events for `user show`. It does so nowhere
// else.
const userShow = "SELECT e.id AS event_id"

// No statement of the service, nor of the commands beside it, reads a whole table of years, whether PostgreSQL has looked at the tables since
// they were small or not.
func TestPlansOfYears(t *testing.T) {
	server := servicetest.NewPostgresServer(t, "session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0",
		"auto_explain.log_nested_statements=on", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "max_wal_size=4GB", "shared_buffers=1GB")
	small := server.Database()
	store := servicetest.Must(models.Open(models.Options{URL: small.URL, MaxConns: 2, Timeout: time.Minute, MaxWait: 20 * time.Second}))(t)
	servicetest.NoError(t, errors.Join(store.Migrate(t.Context()), store.Close()))
	small.Exec("VACUUM ANALYZE")
	// Triggers and foreign keys would look at each row by itself.
	disabled, enabled := triggers("DISABLE TRIGGER ALL"), triggers("ENABLE TRIGGER ALL")
	small.Exec(strings.Join(slices.Concat([]string{"SET auto_explain.log_min_duration = -1"}, disabled, years, enabled), ";\n"))
	for _, statistics := range []string{"statistics of small tables", "new statistics"} {
		t.Run(statistics, func(t *testing.T) {
			db := server.CopyOf(t, small)
			if statistics == "new statistics" {
				db.Exec("VACUUM ANALYZE")
			}
			s := servicetest.Start(t, db)
			servicetest.Crowd(t, s, "crowded", 600, 2)
			before := len(server.Log())
			servicetest.UseAll(t, s)
			plans := strings.Split(server.Log()[before:], " LOG:  duration: ")[1:]
			if len(plans) < 60 {
				t.Errorf("%d plans", len(plans))
			}
			for _, plan := range plans {
				if wholeTable.MatchString(plan) && !strings.Contains(plan, userShow) {
					t.Error(plan)
				}
			}
			t.Logf("%d plans", len(plans))
		})
	}
}
