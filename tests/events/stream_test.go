package events

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// crowdSizes surround the numbers at which the service reads a Crowd differently: the RSVPs of an event beyond 256 are read in
// batches, here of 1,695 and then 1,679.
var crowdSizes = []int{1, 0, 255, 256, 257, 0, 1694, 1695, 1696, 3, 1695 + 1679, 1695 + 1679 + 1, 256, 1}

// streamed is a number of RSVPs of users with a longName whose list, of 1.4 MB, is not held, and which a client that does not
// read keeps waiting.
const streamed = 3_600

// longName and a number behind it are nearly as long as a username may be, in letters and in bytes.
var longName = strings.Repeat("🎲", 90)

// A list is the same whether it is read at once, in batches, or in pages that are streamed each.
func TestListEventsStreamed(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		want := servicetest.Crowd(t, s, "plaza", crowdSizes...)
		alice := s.SignIn("alice")
		whole := alice.Get(servicetest.Plaza)
		if got := servicetest.Usernames(t, whole.Body); !servicetest.Equal(got, want) {
			t.Errorf("the whole list differs: %d events", len(got))
		}
		whole.HasHeader("ETag", "").HasHeader("Content-Length", "").HasHeader("Cache-Control", "private, no-cache")
		for _, limit := range []int{1, 5, len(want) - 1, len(want)} {
			var got [][]string
			for path := fmt.Sprintf("%s?limit=%d", servicetest.Plaza, limit); path != ""; {
				page := alice.Get(path)
				events := servicetest.Usernames(t, page.Body)
				if len(events) > limit {
					t.Errorf("limit %d: %d events", limit, len(events))
				}
				got = append(got, events...)
				path = ""
				if page.Header.Get("Link") != "" {
					path = servicetest.NextPage(t, s, page).RequestURI()
				}
			}
			if !servicetest.Equal(got, want) {
				t.Errorf("limit %d: the pages together differ: %d events", limit, len(got))
			}
		}
	})
}

// Clients who share the beginning of a streamed list go on by themselves, each from its own place.
func TestListEventsStreamedToMany(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const events, clients, rounds = 4000, 8, 2
		alice := s.SignIn("alice")
		id := "CAST('00000000-0000-7000-8000-' || lpad(CAST(i AS text), 12, '0') AS uuid)"
		if s.Database.Dialect == "sqlite" {
			id = "printf('00000000-0000-7000-8000-%012d', i)"
		}
		const moment = "'2030-01-01 00:00:00+00:00'" // all at once: the id alone tells where a batch ends
		s.Database.Exec(fmt.Sprintf(`INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT %s, 'plaza', 'n', '%s', %s, %s FROM n`, events, id, strings.Repeat("d", 600), moment, moment))
		want := alice.Get(servicetest.Plaza).Body
		if n := strings.Count(want, `"id"`); n != events {
			t.Fatalf("%d events", n)
		}
		for range rounds {
			servicetest.AtOnce(clients, func(int) {
				if got := alice.Get(servicetest.Plaza).Body; got != want {
					t.Errorf("%d events in %d bytes, want %d in %d", strings.Count(got, `"id"`), len(got), events, len(want))
				}
			})
		}
	})
}

// More slow readers than there are connections to the database keep nobody waiting.
func TestListEventsSlowReaders(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.CrowdOf(t, s, longName, "plaza", streamed)
		alice := s.SignIn("alice")
		for range 10 { // SQLite has eight connections for readers
			_, hangUp := servicetest.OpenList(t, s, alice)
			defer hangUp()
		}
		servicetest.Eventually(t, 20*time.Second, "a connection is free", func() bool {
			return alice.Get("/api/event/quiet").Status == 200
		})
		id := alice.Create("quiet", "n", servicetest.When)
		alice.Get("/api/event/quiet").Is(200, servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "alice")))
		alice.Get("/api/auth/refresh").Is(200, servicetest.Success)
	}, func(o *servicetest.Options) { o.DBMaxConns = 2 })
}

// A client that goes away in the middle leaves nothing behind.
func TestListEventsClientGone(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		want := servicetest.CrowdOf(t, s, longName, "plaza", streamed)
		alice := s.SignIn("alice")
		for range 5 {
			_, hangUp := servicetest.OpenList(t, s, alice)
			hangUp()
		}
		if got := servicetest.Usernames(t, alice.Get(servicetest.Plaza).Body); !servicetest.Equal(got, want) {
			t.Error("the next list differs")
		}
		servicetest.Eventually(t, 5*time.Second, "all six requests are logged", func() bool {
			return strings.Count(s.Log.String(), "listEvents") >= 6
		})
		if strings.Contains(s.Log.String(), "ERROR") {
			t.Error("a client that hangs up is logged as an error")
		}
	})
}

// A database that goes away in the middle ends the response, never as if it were whole.
func TestListEventsDatabaseGone(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, url := db.ThroughProxy()
	behind := *db
	behind.URL = url
	s := servicetest.Start(t, &behind)
	servicetest.CrowdOf(t, s, longName, "plaza", streamed)
	res, conn := servicetest.OpenListAt(t, s, s.SignIn("alice"), servicetest.Plaza)
	defer conn.Close()
	proxy.Down()
	conn.SetReadBuffer(4 << 20) // what is on its way fills megabytes, which would take most of a minute 4 KiB at a time
	rest, err := io.ReadAll(res.Body)
	if err == nil {
		t.Errorf("the response ends like a whole one, %d bytes on", len(rest))
	}
}

// Requests that share a query are each checked for themselves.
func TestListEventsSharedDeletedUser(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, ghost := s.SignIn("alice"), s.SignIn("ghost")
		id := alice.Create("plaza", "n", servicetest.When)
		s.Database.Exec("DELETE FROM users WHERE username = 'ghost'")
		want := servicetest.List(servicetest.Listed(id, "n", "", servicetest.When, "alice"))
		servicetest.AtOnce(64, func(i int) {
			if i%2 == 0 {
				alice.Get(servicetest.Plaza).Is(200, want)
			} else {
				ghost.Get(servicetest.Plaza).IsError(401, "invalid_token")
			}
		})
	})
}

// Whoever shares a query reads what was acknowledged before they asked: their own writes and everybody's.
func TestListEventsReadsWrites(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		id := s.SignIn("host").Create("plaza", "n", servicetest.When)
		other := s
		if s.Database.Dialect == "postgres" { // SQLite is for one instance: two fight for its one write lock
			other = s.NewInstance()
		}
		servicetest.AtOnce(24, func(i int) {
			name := fmt.Sprintf("user %d", i)
			c := s.SignIn(name)
			if i%2 == 1 {
				c = c.On(other)
			}
			for range 10 {
				c.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
				if !strings.Contains(c.Get(servicetest.Plaza).Body, `"`+name+`"`) {
					t.Errorf("%s joined and is not listed", name)
				}
				c.Delete("/api/event/"+id).Is(200, servicetest.Success)
				if strings.Contains(c.Get(servicetest.Plaza).Body, `"`+name+`"`) {
					t.Errorf("%s left and is listed", name)
				}
			}
		})
	})
}

// slowly begins to ask for a list, reads a little of it, runs meanwhile, and then reads the rest.
func slowly(t *testing.T, s *servicetest.Service, c *servicetest.Client, path string, meanwhile func()) string {
	t.Helper()
	res, conn := servicetest.OpenListAt(t, s, c, path)
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
	case <-time.After(3 * time.Minute):
		t.Fatalf("%s does not end", path)
		return ""
	}
}

// haveAppear adds events of one time, in one transaction: a client that reads nothing has its time, and a busy disk takes that.
func haveAppear(s *servicetest.Service, n int) {
	var args []any
	for i := range n {
		args = append(args, servicetest.IDOf(i), time.Date(2030, 2, 5, 12, 30, 0, 0, time.UTC), servicetest.At(2030))
	}
	s.Database.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, 'plaza', 'new', '', ?, ?)"+
		strings.Repeat(", (?, 'plaza', 'new', '', ?, ?)", n-1)+" ON CONFLICT DO NOTHING", args...)
}

// A page that is being read holds what it held when it began, whatever appears in its range meanwhile; and it ends.
func TestListEventsPageWhileEventsAppear(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		// More than the network holds for a client that does not read.
		servicetest.AddEvents(s, "plaza", 8000, 900, 2030, strings.Repeat("d", 5000))
		alice := s.SignIn("alice")
		want := servicetest.EventIDs(t, alice.Get(servicetest.Plaza+"?limit=900").Body)
		body := slowly(t, s, alice, servicetest.Plaza+"?limit=900", func() {
			s.Database.Exec("DELETE FROM events WHERE id = '00000000-0000-7000-8000-000000000890'")
			// In one gap, ahead of what has been read: between two events, an hour apart, of February.
			haveAppear(s, 700)
		})
		got := servicetest.EventIDs(t, body)
		if i := slices.Index(want, "00000000-0000-7000-8000-000000000890"); !slices.Equal(got, slices.Delete(want, i, i+1)) {
			t.Errorf("%d events, want %d", len(got), len(want)-1)
		}
	})
}

// The request of a client that has hung up ends, whatever there is still to read.
func TestListEventsEndsWithItsClient(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		servicetest.AddEvents(s, "plaza", 8000, 900, 2030, strings.Repeat("d", 5000))
		alice := s.SignIn("alice")
		for _, path := range []string{servicetest.Plaza, servicetest.Plaza + "?limit=850"} {
			_, conn := servicetest.OpenListAt(t, s, alice, path)
			haveAppear(s, 300)
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
		want := servicetest.CrowdOf(t, s, longName, "plaza", 2*streamed)[0] // more than is read before the response begins
		s.Clock.Freeze(servicetest.At(2031))                                // the crowd joined in 2030
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		event := "00000000-0000-7000-8000-000000000000"
		s.Database.Exec("UPDATE users SET username = 'first' WHERE username = ?", want[0])
		s.Database.Exec("UPDATE users SET username = 'last' WHERE username = ?", want[len(want)-1])
		first := s.SignIn("first")
		names := servicetest.Usernames(t, slowly(t, s, alice, servicetest.Plaza, func() {
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

// A list does not end as if it were whole when an event is removed while its RSVPs are read, even if it is created again at
// once with its key, and so with its id.
func TestListEventsRemovedDuringStream(t *testing.T) {
	for again, name := range map[bool]string{false: "removed", true: "created again"} {
		t.Run(name, func(t *testing.T) {
			servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
				alice := s.SignIn("alice")
				id := keyed(alice, servicetest.Plaza, boatTrip, "k")
				event := idOf(t, id)
				remove := func() {
					if _, err := s.Store.RemoveEvent(t.Context(), event); err != nil {
						t.Fatal(err)
					}
				}
				sweep := func() {
					if err := s.Store.SweepEvents(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				remove()
				sweep()
				servicetest.CrowdOf(t, s, longName, "plaza", 2*streamed)
				s.Database.Exec("UPDATE events SET id = ? WHERE id = '00000000-0000-7000-8000-000000000000'", id)
				res, conn := servicetest.OpenListAt(t, s, alice, servicetest.Plaza)
				defer conn.Close()
				begin, err := io.ReadAll(io.LimitReader(res.Body, 1000))
				if err != nil {
					t.Fatal(err)
				}
				remove()
				if again {
					sweep() // the last event: SQLite would give its number out again
					if created := keyed(alice, servicetest.Plaza, boatTrip, "k"); created != id {
						t.Fatal(created)
					}
				}
				conn.SetReadBuffer(4 << 20)
				if text, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%v after %d bytes: …%s", err, len(begin)+len(text), text[max(0, len(text)-200):])
				}
			})
		})
	}
}
