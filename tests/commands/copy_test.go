package commands

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// programOn is the program on a database.
func programOn(t *testing.T, db *servicetest.Database) *servicetest.Program {
	t.Helper()
	return servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "LOG_LEVEL=warn") // a slow command may log that it hears others
}

// schemaOf lists all that the tables are made of.
func schemaOf(t *testing.T, db *servicetest.Database) string {
	t.Helper()
	query := "SELECT group_concat(sql, char(10) ORDER BY sql) FROM sqlite_schema"
	if db.Dialect == "postgres" {
		query = `WITH copied AS (SELECT to_regclass(name) AS id FROM unnest('{` + strings.Join(servicetest.CopiedTables, ",") + `}'::text[]) name)
			SELECT string_agg(line, E'\n' ORDER BY line) FROM (
				SELECT pg_get_indexdef(indexrelid) AS line FROM pg_index JOIN copied ON indrelid = id
				UNION ALL SELECT conname || convalidated::text || pg_get_constraintdef(oid) FROM pg_constraint JOIN copied ON conrelid = id
				UNION ALL SELECT id::text || attname || format_type(atttypid, atttypmod) || attnotnull::text || attidentity::text || attgenerated::text || attcollation::text
					FROM pg_attribute JOIN copied ON attrelid = id WHERE attnum > 0) lines`
	}
	var schema string
	db.Read(query, nil, &schema)
	if strings.Count(schema, "\n") < 10 {
		t.Fatalf("schema %q", schema)
	}
	return schema
}

// addOddities writes rows behind the service's back, with values at the ends of what there can be.
func addOddities(db *servicetest.Database) {
	db.Exec("INSERT INTO blocked_identities (hash, blocked_at) VALUES (?, ?)", bytes.Repeat([]byte{0, 0xff}, 16), servicetest.At(2029))
	name := strings.Repeat("\U0010ffff", 100)
	over := map[string]string{"postgres": "OVERRIDING SYSTEM VALUE "}[db.Dialect]
	for i, user := range []struct {
		number          int
		name            string
		issuer, subject any
	}{
		{-7, "é", nil, nil}, {900, "e\u0301", "https://id.example.org", "subject '1"}, {901, "\u2028\ufeff", "https://id.example.org", "subject '2"},
		{2147483000, name, "https://id.example.org", "subject '3"}, {902, "NULL", nil, nil}, {903, "\\N\\.", nil, nil}, {904, " 2030 ", nil, nil},
	} {
		db.Exec("INSERT INTO users (number, id, username, created_at, issuer, subject) "+over+"VALUES (?, ?, ?, ?, ?, ?)",
			user.number, servicetest.IDOf(5000+i), user.name, servicetest.At(2029).Add(time.Duration(i)*time.Microsecond), user.issuer, user.subject)
	}
	for i, e := range []struct{ name, description, at string }{
		{"\t", strings.Repeat("😀", 5000), "9999-12-31 23:59:59.999+00:00"}, {"'; DROP TABLE users; --", "", "1970-01-01 00:00:00+00:00"},
		{"25 ms", "a\r\n\tb\\x00", "2030-01-01 00:00:00.025+00:00"}, {"250 ms", "", "2030-01-01 00:00:00.25+00:00"},
	} {
		db.Exec("INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at) VALUES (?, ?, NULL, ?, ?, ?, ?)",
			servicetest.IDOf(6000+i), "odd/😀%", e.name, e.description, e.at, servicetest.At(2029))
		db.Exec("INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT e.number, u.number, u.username, '2029-01-01 00:00:00.000001+00:00' FROM events e, users u WHERE e.id = ?", servicetest.IDOf(6000+i))
	}
}

// A copy has the lists, sessions and schema of its source to the byte, whatever both are kept in, life goes on there, and it is one file.
func TestCopy(t *testing.T) {
	servicetest.EachCopy(t, func(t *testing.T, from, to *servicetest.Database) {
		p := programOn(t, from).With("SESSIONS_PER_USER=5")
		p.MustRun("demo")
		addOddities(from)
		source := p.ServeReady()
		session := p.Issue("alice")
		ended := p.Issue("bob")
		p.MustRun("session", "revoke", "bob")
		source.Is(200, "GET", servicetest.RefreshPath, "", p.Issue("alice")) // has a spent token
		done, words := p.MustCopy(to.URL)
		servicetest.Is(t, done.Rows, from.Counts(), "rows that it says")
		servicetest.Is(t, to.Counts(), from.Counts(), "rows copied")
		servicetest.Contains(t, words, "open") // about the service on the source
		servicetest.Contains(t, words, "not in the copy")

		target := programOn(t, to).ServeReady()
		for _, world := range []string{servicetest.Plaza, "/api/event/" + url.PathEscape("odd/😀%"), "/api/event/none"} {
			want := source.Is(200, "GET", world, "", session)
			servicetest.Is(t, target.Is(200, "GET", world, "", session), want, "the list of %s", world)
		}
		migrated := map[string]func(testing.TB) *servicetest.Database{"sqlite": servicetest.SQLite, "postgres": servicetest.Postgres}[to.Dialect](t)
		servicetest.Is(t, schemaOf(t, to), schemaOf(t, migrated), "the schema")
		target.Is(401, "GET", servicetest.Plaza, "", ended)
		target.Is(400, "GET", servicetest.RefreshPath, "", ended)
		target.Is(200, "GET", servicetest.RefreshPath, "", session)
		target.Is(400, "GET", servicetest.RefreshPath, "", session)
		target.Is(200, "POST", "/api/event/new", servicetest.EventBody, session) // the next number is free
		on := programOn(t, to)
		on.MustRun("user", "add", "new")
		servicetest.Is(t, to.Count("rsvps r JOIN events e ON e.number = r.event_number WHERE e.world_id = 'new'"), 1, "RSVPs of the new event")

		first, _ := on.MustCopy("sqlite:backup ü%20?.db")
		servicetest.Is(t, folderNames(t, on.Dir), "backup ü%20?.db\n", "files")
		info := servicetest.Must(os.Stat(filepath.Join(on.Dir, "backup ü%20?.db")))(t)
		servicetest.Is(t, info.Mode(), 0o600, "mode: its owner's alone")
		again, _ := on.With("DATABASE_URL=sqlite:backup ü%20?.db").MustCopy(servicetest.EmptyPostgres(t).URL)
		servicetest.Is(t, again.Checksum, first.Checksum, "the checksum of a copy of the copy")
		servicetest.Is(t, first.Checksum == done.Checksum, false, "the checksum stays although rows came")
	})
}

// Each change leaves one line: when, who, what. Nothing of a password is printed.
func TestCopyLeavesAnAuditLine(t *testing.T) {
	t.Parallel()
	db := servicetest.EmptyPostgres(t)
	secret := "pass-word-of-the-target"
	address := servicetest.Must(url.Parse(db.URL))(t)
	address.User = url.UserPassword(address.User.Username(), secret)
	p := servicetest.NewProgram(t, "LOG_FORMAT=json", "LOG_LEVEL=error")
	p.MustRun("demo")
	stdout, stderr := p.Succeeds("copy", "--to", address.String())
	servicetest.Lacks(t, stdout+stderr, secret)
	servicetest.Is(t, strings.Count(stderr, `"audit"`), 1, "audit lines: %s", stderr)
	line := regexp.MustCompile(`\{"time":"20[^"]+","level":"INFO","msg":"audit","action":"copy","os_user":"[^"]+",.*` +
		`"from":"sqlite:worldevents\.db","to":"postgres://[^"]*` + address.Path)
	servicetest.Is(t, line.MatchString(lastLine(stderr)), true, "the audit line: %s", stderr)
	for _, args := range [][]string{
		{"copy", "--to", address.String()}, {"copy", address.String()}, {"copy", "--to", "x" + address.String()}, {"copy", "--to=" + address.String() + "&sslmode=x?"},
		{"copy", "--too=" + address.String()}, {"copy", "--to", address.String(), "--to", address.String(), address.String()},
		{"copy", "--to", strings.Replace(address.String(), address.Port(), "1", 1)}, {"copy", "--to", strings.Replace(address.String(), "@", "%zz@", 1)},
	} {
		servicetest.Lacks(t, p.Fails("worldevents: ", args...), secret)
	}
}

// Beside the account that a command runs under its line says who came to it, where the system knows.
func TestAuditSaysWhoAsks(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "LOG_FORMAT=json")
	const signedIn = "echo 1234 2>/dev/null >/proc/self/loginuid; " // where the test may
	text, err := exec.Command("sh", "-c", signedIn+"cat /proc/self/loginuid").Output()
	want := map[string]float64{"1234": 1234, "4294967295": -1}[string(text)]
	if want == 0 {
		servicetest.Missing(t, "the test has a loginuid: %s %v", text, err)
	}
	for i, sudo := range []string{"maria", ""} {
		command := exec.Command("sh", append([]string{"-c", signedIn + `exec "$0" "$@"`}, p.Command("user", "add", fmt.Sprint("user ", i)).Args...)...)
		command.Dir, command.Env = p.Dir, append(slices.Clone(p.Env), "SUDO_USER="+sudo)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		servicetest.NoError(t, command.Run())
		line := map[string]any{"login_uid": -1.0}
		servicetest.NoError(t, json.Unmarshal(stderr.Bytes(), &line))
		if name, there := line["sudo_user"]; there != (sudo != "") || there && name != sudo || line["login_uid"] != want || line["os_user"] == nil {
			t.Errorf("%s", stderr.String())
		}
	}
}

// A file that is no database, and a folder that is not there, are called so, and nothing is said of a database that is away.
func TestWordsForWrongFiles(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	servicetest.NoError(t, os.WriteFile(filepath.Join(p.Dir, "text"), bytes.Repeat([]byte("this is no database "), 500), 0o600))
	for _, test := range []struct{ database, command, words string }{
		{"text", "copy --to sqlite:copy.db", "text: this is no SQLite database"},
		{"text", "user list", "text: this is no SQLite database"},
		{"text", "migrate", "restore a backup"},
		{"missing.db", "copy --to sqlite:copy.db", "missing.db: no such file"},
		{"nowhere/w.db", "copy --to sqlite:copy.db", "nowhere/w.db: no such file"},
		{"nowhere/w.db", "migrate", "nowhere/w.db: its folder does not exist"},
		{"nowhere/w.db", "user list", "nowhere/w.db: there is no such file"},
		{"worldevents.db", "copy --to sqlite:nowhere/copy.db", "nowhere/copy.db.copying: no such file"},
	} {
		line := p.With("DATABASE_URL=sqlite:"+test.database).Fails(test.words, strings.Fields(test.command)...)
		servicetest.Lacks(t, line, "unavailable")
		servicetest.Lacks(t, line, "takes no writes")
	}
}

// What cannot be a source or a target is refused in one line, and changed in nothing.
func TestCopyRefuses(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	p.MustRun("demo")
	file := filepath.Join(p.Dir, "worldevents.db")
	in := func(name string) string { return filepath.Join(p.Dir, name) }
	for name, text := range map[string]string{
		"wal.db-wal": "x", "shm.db-shm": "x", "journal.db-journal": "x", "way.db.copying": "x", "text.db": strings.Repeat("no database ", 999), "empty.db": "",
	} {
		servicetest.NoError(t, os.WriteFile(in(name), []byte(text), 0o600))
	}
	servicetest.NoError(t, errors.Join(os.Symlink(file, in("symbolic.db")), os.Link(file, in("hard.db")), os.Symlink("nowhere", in("dangling.db"))))
	full, foreign, newer, oldSource, newSource := servicetest.EmptyPostgres(t), servicetest.EmptyPostgres(t), servicetest.Postgres(t), servicetest.Postgres(t), servicetest.Postgres(t)
	programOn(t, full).MustRun("demo")
	foreign.Exec("CREATE TABLE events (id int)")
	newer.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
	newSource.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
	oldSource.Exec("DELETE FROM goose_db_version WHERE version_id > 0")
	partial := servicetest.Postgres(t) // rows in the last table one looks at would do, too
	partial.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, 'w', 'n', '', ?, ?)", servicetest.IDOf(1), servicetest.At(2030), servicetest.At(2030))
	p.MustCopy("sqlite:old.db")
	servicetest.OpenSQLite(t, in("old.db")).Exec("DELETE FROM goose_db_version WHERE version_id > 0")
	p.MustCopy("sqlite:older.db")
	older := servicetest.OpenSQLite(t, in("older.db"))
	older.Exec("DROP INDEX users_skeleton")
	older.Exec("DROP INDEX users_given_skeleton")
	older.Exec("ALTER TABLE users DROP COLUMN skeleton")
	withoutRows := servicetest.EmptyPostgres(t)
	before := folder(t, p.Dir)
	for _, test := range []struct{ from, to, says string }{
		{"", "sqlite:wal.db", "wal.db-wal is left"},
		{"", "sqlite:shm.db", "shm.db-shm is left"},
		{"", "sqlite:journal.db", "journal.db-journal is left"},
		{"", "sqlite:way.db", "way.db.copying exists: another copy into it is running, or a killed one left it: then remove it"},
		{"", "sqlite:nowhere/backup.db", "no such file or directory"},
		{"", "nowhere/folder/", "no such file or directory"},
		{"", "postgres://127.0.0.1:x/y", "not a PostgreSQL URL"},
		{"", "postgres://127.0.0.1:1/y", "unavailable"},
		{"", strings.Replace(full.URL, "worldevents_", "nothing_", 1), "does not exist"},
		{"", full.URL, "has rows in users"},
		{"", partial.URL, "has rows in events"},
		{"", foreign.URL, "of another program"},
		{"", newer.URL, "schema 99999"},
		{full.URL, full.URL, "has rows in users"},
		{full.URL, strings.Replace(full.With("application_name=x").URL, "127.0.0.1", "localhost", 1), "has rows in users"},
		{full.URL, partial.URL, "has rows in events"},
		{newSource.URL, "sqlite:backup.db", "schema 99999"},
		{oldSource.URL, "sqlite:backup.db", "nothing to copy"},
		{foreign.URL, "sqlite:backup.db", "nothing to copy"},
		{"sqlite:absent.db", "sqlite:backup.db", "no such file"},
		{"sqlite:.", "sqlite:backup.db", "is not a file"},
		{"sqlite:text.db", "sqlite:backup.db", "not a database"},
		{"sqlite:empty.db", "sqlite:backup.db", "nothing to copy"},
		{"sqlite:old.db", "sqlite:backup.db", "nothing to copy"},
		{"sqlite:older.db", "sqlite:backup.db", "table users: no column skeleton"},
		{"sqlite:older.db", withoutRows.URL, "table users: no column skeleton"},
	} {
		p.With("DATABASE_URL="+cmp.Or(test.from, "sqlite:worldevents.db")).Fails(test.says, "copy", "--to", test.to)
	}
	for says, targets := range map[string][]string{
		"exists": {
			"sqlite:worldevents.db", "sqlite:./../" + filepath.Base(p.Dir) + "/worldevents.db", "sqlite:///" + file, "sqlite:symbolic.db", "sqlite:hard.db",
			"sqlite:dangling.db", "sqlite:text.db", "sqlite:empty.db", "sqlite:.", "sqlite:worldevents.db-wal",
		},
		"name of a file":                     {"sqlite:", "sqlite:///folder/", "sqlite://example.org/backup.db"},
		"must be sqlite:FILE or postgres://": {"", "backup.db", "mysql://x/y", "host=127.0.0.1 dbname=x"},
	} {
		for _, target := range targets {
			p.Fails(says, "copy", "--to", target)
		}
	}
	p.Fails("--to", "copy")
	servicetest.Is(t, folder(t, p.Dir), before, "files")
	servicetest.Is(t, foreign.Count("pg_tables WHERE schemaname = 'public'"), 1, "tables beside somebody else's")
	servicetest.Is(t, partial.Count("events"), 1, "events")
}

// Another schema of the same database is another target.
func TestCopyBetweenSchemas(t *testing.T) {
	t.Parallel()
	t.Run("search_path", func(t *testing.T) { // which PgBouncer does not pass on
		db := servicetest.EmptyPostgres(t)
		programOn(t, db).MustRun("demo")
		db.Exec(`CREATE SCHEMA "other Schema"`)
		programOn(t, db).MustCopy(db.With("search_path=%22other%20Schema%22").URL)
		servicetest.Is(t, db.Count(`"other Schema".rsvps`), 6, "RSVPs")
	})
}

// What SQLite holds and PostgreSQL cannot is refused by name, and what is broken nowhere passes for a copy. A file that becomes
// a file keeps it.
func TestCopyOfWhatPostgresCannotKeep(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statement, says string
		toSQLite        bool
	}{
		"NUL":              {"INSERT INTO users (number, id, username, created_at, issuer, subject) VALUES (50, '" + servicetest.IDOf(1) + "', 'x', '2030-01-01 00:00:00+00:00', 'i', 'a' || char(0) || 'b')", "users: subject has a NUL, which PostgreSQL cannot keep, in the row with id " + servicetest.IDOf(1) + ", number 50", true},
		"no UTF-8":         {"UPDATE events SET description = CAST(x'ff' AS text) WHERE number = 2", "events: description is not UTF-8", true},
		"bytes as text":    {"UPDATE events SET name = x'41' WHERE number = 2", "events: name is no text", true},
		"large number":     {"UPDATE users SET number = 2147483648 WHERE username = 'alice'", "users: number is no integer of the column's size", true},
		"text for a time":  {"UPDATE users SET created_at = 'yesterday' WHERE username = 'alice'", "users: created_at is no time", true},
		"number as time":   {"UPDATE users SET created_at = 2030 WHERE username = 'alice'", "users: created_at is no time", true},
		"orphan":           {"DELETE FROM events WHERE number = 1", "rsvps", false},
		"long for indexes": {"UPDATE events SET world_id = (WITH RECURSIVE n (i, x) AS (SELECT 1, hex(randomblob(32)) UNION ALL SELECT i + 1, x || hex(randomblob(32)) FROM n WHERE i < 200) SELECT x FROM n ORDER BY i DESC LIMIT 1)", "index row", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := servicetest.NewProgram(t)
			p.MustRun("demo")
			source := servicetest.OpenSQLite(t, filepath.Join(p.Dir, "worldevents.db"))
			source.DB.SetMaxOpenConns(1)
			source.Exec("PRAGMA foreign_keys = OFF")
			if name == "large number" {
				source.Exec("UPDATE rsvps SET user_number = 2147483648 WHERE username = 'alice'")
			}
			source.Exec(test.statement)
			to := servicetest.EmptyPostgres(t)
			failsInTheEnd(t, p, test.says, "copy", "--to", to.URL)
			for table, n := range to.Counts() {
				servicetest.Is(t, n, 0, "rows of %s", table)
			}
			_, stderr, status := p.Run("copy", "--to", "sqlite:backup.db")
			servicetest.Is(t, status == 0, test.toSQLite, "copied to a file: %d %s", status, stderr)
			_, err := os.Stat(filepath.Join(p.Dir, "backup.db"))
			servicetest.Is(t, err == nil, test.toSQLite, "there is a file: %v", err)
		})
	}
	for _, test := range []struct{ statement, says string }{
		{"UPDATE users SET created_at = 'infinity'", "users: created_at is no time"},
		{"UPDATE users SET created_at = '0044-03-15 BC'", "users: created_at is no time"},
		{"UPDATE rsvps SET created_at = '12000-01-01'", "rsvps: created_at is no time"},
		{"UPDATE rsvps SET created_at = '1969-12-31'", "CHECK constraint failed"},
		{"ALTER TABLE users ADD COLUMN mine text", "the columns of users differ"},
		{"ALTER TABLE users ADD COLUMN mine point", "cannot be copied"},
	} {
		t.Run(test.statement, func(t *testing.T) {
			t.Parallel()
			db := servicetest.EmptyPostgres(t)
			p := programOn(t, db)
			p.MustRun("demo")
			db.Exec(test.statement)
			failsInTheEnd(t, p, test.says, "copy", "--to", "sqlite:backup.db")
			servicetest.Is(t, folderNames(t, p.Dir), "", "files left")
		})
	}
}

// failsInTheEnd is Program.Fails of a command that may say other things before.
func failsInTheEnd(t *testing.T, p *servicetest.Program, words string, args ...string) {
	t.Helper()
	stdout, stderr, status := p.Run(args...)
	if status != 1 || stdout != "" || !servicetest.OneLine(lastLine(stderr), words) {
		t.Errorf("%q: %d %q %q, want %q", args, status, stdout, stderr, words)
	}
}

func lastLine(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-2):], "")
}

// A copy is read in the order of the lists, as its source. An index of the source that has another order shows then.
func TestCopyOfABrokenIndex(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	p.MustRun("demo")
	for _, statements := range [][]string{
		{"PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = replace(sql, 'scheduled_at', 'scheduled_at DESC') WHERE name = 'events_list'"},
		{"REINDEX events_list", "PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = replace(sql, ' DESC', '') WHERE name = 'events_list'"},
	} {
		db := servicetest.OpenSQLite(t, filepath.Join(p.Dir, "worldevents.db"))
		db.DB.SetMaxOpenConns(1)
		for _, statement := range statements {
			db.Exec(statement)
		}
		db.DB.Close()
	}
	to := servicetest.EmptyPostgres(t)
	failsInTheEnd(t, p, "the copy of events is not equal", "copy", "--to", to.URL)
	servicetest.Is(t, to.Count("events"), 0, "events")
}

// A copy that is made under load shows one moment: no event without its creator's RSVP. Nobody is refused for it.
func TestCopyUnderLoad(t *testing.T) {
	servicetest.EachCopy(t, func(t *testing.T, from, to *servicetest.Database) {
		p := programOn(t, from)
		s := servicetest.Start(t, from) // which waits for a busy disk for longer than the program does
		var stop atomic.Bool
		var work sync.WaitGroup
		defer work.Wait()
		defer stop.Store(true)
		var created atomic.Int64
		for i := range 2 {
			c := s.SignIn(fmt.Sprint("user", i))
			work.Go(func() {
				for !stop.Load() {
					c.Create("plaza", "n", servicetest.When)
					created.Add(1)
				}
			})
		}
		servicetest.Eventually(t, "events", func() bool { return created.Load() > 50 })
		done, _ := p.MustCopy(to.URL)
		if n := to.Count("events"); n < 50 || n != done.Rows["events"] || n != to.Count("rsvps") {
			t.Errorf("%d events, %d RSVPs, and %v", n, to.Count("rsvps"), done.Rows)
		}
		servicetest.Is(t, to.Count(`events e WHERE NOT EXISTS (SELECT 1 FROM rsvps r JOIN users u ON u.number = r.user_number
			WHERE r.event_number = e.number AND u.id = e.creator_id)`), 0, "events without their creators")
	})
}

// Of several copies into one target at once one succeeds, and it is whole.
func TestCopiesAtOnce(t *testing.T) {
	servicetest.EachCopy(t, func(t *testing.T, from, to *servicetest.Database) {
		p := programOn(t, from)
		p.MustRun("demo")
		var succeeded atomic.Int64
		servicetest.AtOnce(4, func(int) {
			stdout, stderr, status := p.Run("copy", "--to", to.URL)
			switch {
			case status == 0:
				succeeded.Add(1)
			case status != 1 || stdout != "" || !strings.HasPrefix(lastLine(stderr), "worldevents: copy: "):
				t.Errorf("%d %q %q", status, stdout, stderr)
			}
		})
		servicetest.Is(t, succeeded.Load(), 1, "succeeded")
		servicetest.Is(t, to.Counts(), from.Counts(), "rows")
		left, _ := filepath.Glob(to.File() + ".*") // of a file
		servicetest.Is(t, len(left), 0, "left are %v", left)
	})
}

// A backup of a file has no marks of changes, which name worlds of which nothing else is left. Lists work from then on.
func TestCopyHasNoMarks(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	s := servicetest.Start(t, servicetest.OpenSQLite(t, filepath.Join(p.Dir, "worldevents.db")))
	alice := s.SignIn("alice")
	const world = "a-world-of-which-nothing-is-left"
	id, kept := alice.Create(world, "gone", servicetest.When), alice.Create("plaza", "a", servicetest.When)
	for i := range 300 { // so that marks take several pages
		s.Database.Exec("INSERT INTO changes (world_id) VALUES (?)", fmt.Sprint(i, world))
	}
	p.MustRun("event", "remove", id)
	servicetest.NoError(t, s.Store.SweepEvents(t.Context()))
	p.MustCopy("sqlite:backup.db")
	backup := servicetest.OpenSQLite(t, filepath.Join(p.Dir, "backup.db"))
	servicetest.Is(t, [2]int{s.Database.Count("changes"), backup.Count("changes")}, [2]int{303, 0}, "marks, and those of the backup")
	text := servicetest.Must(os.ReadFile(backup.File()))(t)
	servicetest.Is(t, bytes.Contains(text, []byte(world)), false, "the backup names the world")
	restored := servicetest.Start(t, backup)
	bob := restored.SignIn("bob")
	tag := bob.Get(servicetest.Plaza).Is(200, servicetest.List(servicetest.Listed(kept, "a", "", servicetest.When, "alice"))).Header.Get("ETag")
	for range 4 {
		bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(304, "")
	}
	before := servicetest.Must(restored.Store.WorldsSince(t.Context(), models.Moment{}))(t)
	bob.Post("/api/event/join/"+kept, "").Is(200, servicetest.Success)
	bob.Get(servicetest.Plaza, servicetest.IfNoneMatch(tag)).Is(200, servicetest.List(servicetest.Listed(kept, "a", "", servicetest.When, "alice", "bob")))
	after := servicetest.Must(restored.Store.WorldsSince(t.Context(), before.Now))(t)
	servicetest.Is(t, after.Names, []string{"plaza"}, "worlds that have changed, and not all: %t", after.All)
}

// The tables that are copied are all that the migrations make, but for what is the same in every database of one schema, and the marks of changes.
func TestCopyKnowsAllTables(t *testing.T) {
	t.Parallel()
	db := servicetest.SQLite(t)
	servicetest.Is(t, db.Count("sqlite_schema WHERE type = 'table' AND name NOT IN ('goose_db_version', 'compatibility', 'changes', 'incarnation', '"+strings.Join(servicetest.CopiedTables, "', '")+"') AND name NOT LIKE 'sqlite_%'"), 0, "tables are not copied")
}

// A copy into a folder has the time as its name. --keep deletes older files with such names alone, after a copy that has been made, and none
// while one is of a later time than now.
func TestCopyIntoFolder(t *testing.T) {
	t.Parallel()
	for name, makeFrom := range servicetest.EmptyDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := programOn(t, makeFrom(t))
			p.MustRun("demo")
			const layout = "20060102T150405Z.db"
			began := time.Now().UTC().Format(layout)
			done, _ := p.MustCopy("backups/")
			made := filepath.Base(strings.TrimPrefix(done.To, "sqlite:"))
			at := servicetest.Must(time.Parse(layout, made))(t)
			servicetest.Is(t, made < began || at.After(time.Now()), false, "made %s, and it began at %s", made, began)
			folder := filepath.Join(p.Dir, "backups")
			names := func() []string { return strings.Fields(folderNames(t, folder)) }
			others := []string{"20190101.db", "20190101T000000Z.db.copying", "20190101T000000Z.db-wal", "20190101T000000.5Z.db", "20190231T000000Z.db", "2019010101T000000Z.db", "x20190101T000000Z.db"}
			old := []string{"20200101T000000Z.db", "20200102T000000Z.db", "20200103T000000Z.db"}
			for _, name := range append(slices.Clone(others), old...) {
				servicetest.WriteSecret(t, filepath.Join(folder, name), "SQLite format 3\x00")
			}
			servicetest.NoError(t, errors.Join(os.Mkdir(folder+"/20190102T000000Z.db", 0o700), os.Symlink(made, folder+"/20190103T000000Z.db")))
			before := names()
			around := folderNames(t, p.Dir)
			stays := func(p *servicetest.Program, want string, args ...string) {
				t.Helper()
				failsInTheEnd(t, p, want, append([]string{"copy", "--to"}, args...)...)
				servicetest.Is(t, names(), before, "files after %q", args)
			}
			const keep = "--keep: must be 1 or more, and goes with --to FOLDER/"
			stays(p, keep, "backups/", "--keep", "0")
			stays(p, keep, "backups/", "--keep=-1")
			stays(p, keep, "sqlite:backups", "--keep", "1")
			stays(p, keep, "postgres://127.0.0.1:1/", "--keep", "1")
			stays(p, "no such file or directory", "none/backups/")
			empty := p.With("DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "empty.db"))
			stays(empty, "no such file", folder+"/", "--keep", "1")
			stays(empty, "no such file", filepath.Join(p.Dir, "new")+"/")
			servicetest.Is(t, folderNames(t, p.Dir), around, "folders left by a copy that failed")

			keeping := func(n string) (stdout, stderr string, status int) {
				t.Helper()
				servicetest.Eventually(t, "another second", func() bool { return !slices.Contains(names(), time.Now().UTC().Format(layout)) })
				return p.With("LOG_FORMAT=json").Run("copy", "--to", "sqlite:backups/", "--keep", n)
			}
			const later = "20990101T000000Z.db"
			servicetest.WriteSecret(t, filepath.Join(folder, later), "")
			stdout, stderr, status := keeping("1")
			if status != 1 || !strings.Contains(stdout, "checksum") || !servicetest.OneLine(lastLine(stderr), later+" has a later time in its name than now: move it away") || len(names()) != len(before)+2 {
				t.Errorf("after a later one: %d %q %q, and there are %q", status, stdout, stderr, names())
			}
			os.Remove(filepath.Join(folder, later))
			_, stderr, _ = keeping("4")
			servicetest.Contains(t, stderr, `"deleted":2`)
			servicetest.Is(t, strings.Count(stderr, `"audit"`), 1, "audit lines")
			if now := names(); len(now) != len(before)+2-2 || slices.Contains(now, old[0]) || slices.Contains(now, old[1]) || !slices.Contains(now, old[2]) {
				t.Errorf("there are %q of %q", now, before)
			}
			_, stderr, _ = keeping("1")
			servicetest.Contains(t, stderr, `"deleted":4`)
			now := names()
			if left := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(before, name) }); len(left) != 1 || left[0] <= made || len(now) != len(others)+3 {
				t.Errorf("there are %q of %q", now, before)
			}
		})
	}
}
