package tests

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// addEvents writes events of the world behind the service's back, an hour apart from the year on, with ids of a kind.
func addEvents(s *servicetest.Service, world string, kind, n, year int, description string) {
	id := fmt.Sprintf("CAST('00000000-0000-7000-%04d-' || lpad(CAST(i AS text), 12, '0') AS uuid)", kind)
	at := fmt.Sprintf("CAST('%d-01-01 00:00:00+00' AS timestamptz) + i * interval '1 hour'", year)
	if s.Database.Dialect == "sqlite" {
		id = fmt.Sprintf("printf('00000000-0000-7000-%04d-%%012d', i)", kind)
		at = fmt.Sprintf("datetime('%d-01-01 00:00:00', i || ' hours') || '+00:00'", year)
	}
	s.Database.Exec(fmt.Sprintf(`
		INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT %s, '%s', 'n', '%s', %s, '2030-01-01 00:00:00+00:00' FROM n`, n, id, world, description, at))
}

// Every walk over pages gives every event once, and every page but the last is full, however large the events are.
func TestListEventsPagesOfLargeEvents(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const events = 1000
		addEvents(s, "plaza", 8000, events, 2030, strings.Repeat("d", 5000))
		addEvents(s, "small", 8100, events, 2030, strings.Repeat("d", 700))
		alice := s.SignIn("alice")
		for _, world := range []string{"plaza", "small"} {
			want := eventIDs(t, alice.Get("/api/event/"+world).Body)
			if len(want) != events {
				t.Fatalf("%s: %d events", world, len(want))
			}
			for _, limit := range []int{100, 129, 300, 900, 999, 1000} {
				var got []string
				for path := fmt.Sprintf("/api/event/%s?limit=%d", world, limit); path != ""; {
					page := alice.Get(path)
					ids := eventIDs(t, page.Body)
					got = append(got, ids...)
					path = ""
					if page.Header.Get("Link") != "" {
						path = nextPage(t, s, page).RequestURI()
						if len(ids) != limit {
							t.Errorf("%s, limit %d: a page of %d", world, limit, len(ids))
						}
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, limit %d: %d events of %d", world, limit, len(got), events)
				}
			}
		}
	})
}

// slowly begins to ask for a list, reads a little of it, runs meanwhile, and then reads the rest.
func slowly(t *testing.T, s *servicetest.Service, c *servicetest.Client, path string, meanwhile func()) string {
	t.Helper()
	res, conn := openList(t, s, c, path, time.Now().Add(20*time.Second))
	defer conn.Close()
	begin, err := io.ReadAll(io.LimitReader(res.Body, 1000))
	if err != nil {
		t.Fatal(err)
	}
	meanwhile()
	conn.SetReadBuffer(4 << 20)
	rest := make(chan []byte, 1)
	go func() {
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Errorf("the rest of %s: %v after %d bytes", path, err, len(text))
		}
		rest <- text
	}()
	select {
	case text := <-rest:
		return string(begin) + string(text)
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not end", path)
		return ""
	}
}

// A page that is being read holds what it held when it began, whatever appears in its range meanwhile; and it ends.
func TestListEventsPageWhileEventsAppear(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		// More than the network holds for a client that does not read.
		addEvents(s, "plaza", 8000, 900, 2030, strings.Repeat("d", 5000))
		alice := s.SignIn("alice")
		want := eventIDs(t, alice.Get(plaza+"?limit=900").Body)
		body := slowly(t, s, alice, plaza+"?limit=900", func() {
			s.Database.Exec("DELETE FROM events WHERE id = '00000000-0000-7000-8000-000000000890'")
			// In one gap, ahead of what has been read: between two events, an hour apart, of February.
			for i := range 700 {
				s.Database.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, 'plaza', 'new', '', ?, ?)",
					idOf(i), time.Date(2030, 2, 5, 12, 30, 0, 0, time.UTC), at(2030))
			}
		})
		got := eventIDs(t, body)
		if i := slices.Index(want, "00000000-0000-7000-8000-000000000890"); !slices.Equal(got, slices.Delete(want, i, i+1)) {
			t.Errorf("%d events, want %d", len(got), len(want)-1)
		}
	})
}

// The request of a client that has hung up ends, whatever there is still to read.
func TestListEventsEndsWithItsClient(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		addEvents(s, "plaza", 8000, 900, 2030, strings.Repeat("d", 5000))
		alice := s.SignIn("alice")
		for _, path := range []string{plaza, plaza + "?limit=850"} {
			_, conn := openList(t, s, alice, path, time.Now().Add(20*time.Second))
			for i := range 300 {
				s.Database.TryExec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, 'plaza', 'new', '', ?, ?)",
					idOf(i), time.Date(2030, 2, 5, 12, 30, 0, 0, time.UTC), at(2030))
			}
			before := strings.Count(s.Log.String(), "listEvents")
			conn.Close()
			servicetest.Eventually(t, 10*time.Second, "the request is logged", func() bool {
				return strings.Count(s.Log.String(), "listEvents") > before
			})
		}
	})
}

// A user who leaves a large event and joins it again while it is being read stands in it once.
func TestListEventsRejoinDuringStream(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		want := crowd(t, s, "plaza", 50000)[0]
		s.Clock.Freeze(at(2031)) // the crowd joined in 2030
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		event := "00000000-0000-7000-8000-000000000000"
		s.Database.Exec("UPDATE users SET username = 'first' WHERE username = ?", want[0])
		s.Database.Exec("UPDATE users SET username = 'last' WHERE username = ?", want[len(want)-1])
		first := s.SignIn("first")
		names := usernames(t, slowly(t, s, alice, plaza, func() {
			bob.Post("/api/event/join/"+event, "").Is(200, servicetest.Success)
			first.Delete("/api/event/"+event).Is(200, servicetest.Success)
			first.Post("/api/event/join/"+event, "").Is(200, servicetest.Success)
		}))[0]
		count := map[string]int{}
		for _, name := range names {
			if count[name]++; count[name] > 1 {
				t.Errorf("%q stands there twice", name)
			}
		}
		if len(names) < len(want) || count["last"] != 1 {
			t.Errorf("%d usernames of %d", len(names), len(want))
		}
	})
}

// The digest in a cursor is no secret: what it names must be checked all the same.
func TestListEventsCursorOutOfRange(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", when)
		for _, milli := range []int64{-1, -62135596800001, 253402300800000, 1 << 62, -1 << 63, 1<<63 - 1} {
			alice.Get(plaza+"?cursor="+cursorOf("plaza", milli)).IsError(400, "validation_failed", "cursor")
		}
		for _, milli := range []int64{0, 253402300799999} {
			alice.Get(plaza+"?cursor="+cursorOf("plaza", milli)).HasHeader("Link", "")
		}
		if got := names(t, alice.Get(plaza+"?cursor="+cursorOf("plaza", 0)).Body); !slices.Equal(got, []string{"a"}) {
			t.Errorf("after the beginning: %q", got)
		}
	})
}

// The schema refuses times that a cursor could not name, and ids that are none.
func TestSchemaRefusesWhatNoListCanName(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		insert := func(id, scheduledAt string) error {
			_, err := db.TryExec(fmt.Sprintf(`INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
				VALUES ('%s', 'plaza', 'n', '', '%s', '2030-01-01 00:00:00+00:00')`, id, scheduledAt))
			return err
		}
		for i, at := range []string{"2030-01-01 00:00:00+00:00", "2030-01-01 00:00:00.1+00:00", "2030-01-01 00:00:00.999+00:00", "1970-01-01 00:00:00+00:00", "9999-12-31 23:59:59.999+00:00"} {
			if err := insert(idOf(i), at); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
		for _, at := range []string{"2030-01-01 00:00:00.0001+00:00", "2030-01-01 00:00:00.000001+00:00", "1969-12-31 23:59:59.999+00:00", "10000-01-01 00:00:00+00:00", "2030-02-30 00:00:00+00:00", "infinity"} {
			if err := insert(idOf(100), at); err == nil {
				t.Errorf("%s is taken", at)
			}
		}
		if db.Dialect == "sqlite" { // whose times and ids are text, of which each has one spelling
			for _, at := range []string{"2030-01-01 00:00:00.10+00:00", "2030-01-01T00:00:00Z", "2030-01-01 00:00:00", "2030-01-01 01:00:00+01:00", "2030-01-01 00:00:00.+00:00", "2030-01-01 00:00:00.1 +00:00"} {
				if err := insert(idOf(100), at); err == nil {
					t.Errorf("%s is taken", at)
				}
			}
		}
		for _, id := range []string{"x", "", "00000000-0000-7000-8000-00000000000g"} {
			if err := insert(id, "2030-01-01 00:00:00+00:00"); err == nil {
				t.Errorf("the id %q is taken", id)
			}
		}
	})
}

// ETags need a key: whoever has another cannot compute them, and all instances with the same agree.
func TestListEventsETagNeedsTheKey(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		s := servicetest.Start(t, db)
		same := s.NewInstance()
		other := s.NewInstance(func(o *servicetest.Options) {
			o.Keys = [][]byte{[]byte("another key of 32 bytes or more, for other ETags")}
		})
		alice := s.SignIn("alice")
		alice.Create("plaza", "a", when)
		res := alice.Get(plaza)
		tag := res.Header.Get("ETag")
		if opaque := strings.TrimSuffix(strings.TrimPrefix(tag, `W/"`), `"`); len(opaque) != 22 || strings.Trim(opaque, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("ETag %s", tag)
		}
		alice.On(same).Get(plaza, ifNoneMatch(tag)).Is(304, "").HasHeader("ETag", tag)
		stranger := other.SignIn("bob")
		if got := stranger.Get(plaza, ifNoneMatch(tag)).Is(200, res.Body).Header.Get("ETag"); got == tag {
			t.Errorf("two keys give one ETag %s", tag)
		}
	})
}

// A rename or removal that commits while a statement of the same user waits for it is followed, never an error of ours.
func TestEventsWhileUsersChange(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Postgres(t))
	host := s.SignIn("host")
	for _, test := range []struct {
		change string
		status int
		code   string
	}{
		{"UPDATE users SET username = username || ' renamed' WHERE username = ?", 200, ""},
		{"DELETE FROM users WHERE username = ?", 401, "invalid_token"},
	} {
		for _, operation := range []string{"create", "join"} {
			name := operation + " " + test.code
			guest := s.SignIn(name)
			event := host.Create("plaza", "n", when)
			path, body := "/api/event/join/"+event, ""
			if operation == "create" {
				path, body = plaza, `{"name":"n","description":"","scheduledAt":"`+when+`"}`
			}
			res := during(t, s, test.change, name, func() *servicetest.Response { return guest.Post(path, body) })
			if test.status != 200 {
				res.IsError(test.status, test.code)
				continue
			}
			res.Is(200, servicetest.Success)
			if !strings.Contains(host.Get(plaza).Body, `"`+name+` renamed"`) {
				t.Errorf("%s: not listed by the new name", name)
			}
		}
	}
	event := host.Create("plaza", "n", when)
	during(t, s, "DELETE FROM events WHERE id = CAST(? AS uuid)", event, func() *servicetest.Response {
		return s.SignIn("late").Post("/api/event/join/"+event, "")
	}).IsError(404, "event_not_found")
}

// during runs a change, makes a request that waits for it, and commits.
func during(t *testing.T, s *servicetest.Service, change, what string, request func() *servicetest.Response) (res *servicetest.Response) {
	t.Helper()
	tx, err := s.Database.DB.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(strings.Replace(change, "?", "$1", 1), what); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		res = request()
	}()
	servicetest.Eventually(t, 20*time.Second, "the request waits", func() bool {
		return s.Database.Count("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	<-done
	return res
}

// Whatever form the database or the role prefers for times, lists are read.
func TestDateStyles(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	var name string
	db.Read("SELECT current_database()", nil, &name)
	for _, style := range []string{"German", "SQL, DMY", "Postgres"} {
		db.Exec("ALTER DATABASE " + name + " SET datestyle = '" + style + "'")
		for _, mode := range []string{"", "?default_query_exec_mode=exec", "?default_query_exec_mode=simple_protocol"} {
			other := *db
			other.URL += mode
			s := servicetest.Start(t, &other)
			alice := s.SignIn("alice")
			world := "/api/event/" + strings.NewReplacer(" ", "", ",", "", "?", "", "=", "").Replace(style+mode)
			id := alice.Post(world, event).Is(200, servicetest.Success).Header.Get("Event-Id")
			if got := eventIDs(t, alice.Get(world).Body); !slices.Equal(got, []string{id}) {
				t.Errorf("%s %s: %v", style, mode, got)
			}
			alice.Get(world+"?limit=1").HasHeader("Link", "")
		}
	}
}

// A database that cannot hold every text refuses to start.
func TestEncodings(t *testing.T) {
	t.Parallel()
	db := servicetest.PostgresWith(t, " ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
	for _, command := range []string{"migrate", "serve"} {
		if _, stderr, status := p.Run(command); status != 1 || !strings.Contains(stderr, "LATIN1") || !strings.Contains(stderr, "UTF8 is needed") {
			t.Errorf("%s: %d %q", command, status, stderr)
		}
	}
}

// A connection that takes longer to be made than it used to may: as long as DB_TIMEOUT allows.
func TestConnectingTakesItsTime(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, url := db.ThroughProxy()
	behind := *db
	behind.URL = url
	s := servicetest.Start(t, &behind)
	alice := s.SignIn("alice")
	alice.Create("plaza", "n", when)
	proxy.Down()
	proxy.Up()
	proxy.Delay(3 * time.Second)
	atOnce(20, func(int) {
		if res := alice.Get(plaza); res.Status != http.StatusOK {
			t.Errorf("%d %s", res.Status, res.Body)
		}
	})
}

// cursorOf is a cursor of the world that names a time in milliseconds and no event.
func cursorOf(world string, milli int64) string {
	position := binary.BigEndian.AppendUint64(nil, uint64(milli))
	position = append(position, make([]byte, 16)...)
	digest := sha256.Sum256(append([]byte(world+"\x00"), position...))
	return base64.RawURLEncoding.EncodeToString(append(position, digest[:8]...))
}
