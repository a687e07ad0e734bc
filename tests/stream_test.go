package tests

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// crowdSizes surround the numbers at which the service reads differently: 256 and 4096.
var crowdSizes = []int{1, 0, 255, 256, 257, 0, 4095, 4096, 4097, 3, 16384, 8192 + 256, 256, 1}

// A list is the same whether it is read at once, in batches, or in pages that are streamed each.
func TestListEventsStreamed(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		want := crowd(t, s, "plaza", crowdSizes...)
		alice := s.SignIn("alice")
		whole := alice.Get(plaza)
		if got := usernames(t, whole.Body); !equal(got, want) {
			t.Errorf("the whole list differs: %d events", len(got))
		}
		whole.HasHeader("ETag", "").HasHeader("Content-Length", "").HasHeader("Cache-Control", "private, no-cache")
		for _, limit := range []int{1, 2, 5, len(want) - 1, len(want), len(want) + 1} {
			var got [][]string
			for path := fmt.Sprintf("%s?limit=%d", plaza, limit); path != ""; {
				page := alice.Get(path)
				events := usernames(t, page.Body)
				if len(events) > limit {
					t.Errorf("limit %d: %d events", limit, len(events))
				}
				got = append(got, events...)
				path = ""
				if page.Header.Get("Link") != "" {
					path = nextPage(t, s, page).RequestURI()
				}
			}
			if !equal(got, want) {
				t.Errorf("limit %d: the pages together differ: %d events", limit, len(got))
			}
		}
	})
}

// Clients who share the beginning of a streamed list go on by themselves, each from its own place.
func TestListEventsStreamedToMany(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const events, clients, rounds = 4000, 16, 5
		alice := s.SignIn("alice")
		id := "CAST('00000000-0000-7000-8000-' || lpad(CAST(i AS text), 12, '0') AS uuid)"
		if s.Database.Dialect == "sqlite" {
			id = "printf('00000000-0000-7000-8000-%012d', i)"
		}
		const moment = "'2030-01-01 00:00:00+00:00'" // all at once: the id alone tells where a batch ends
		s.Database.Exec(fmt.Sprintf(`INSERT INTO events (id, world_id, name, description, scheduled_at, created_at)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT %s, 'plaza', 'n', '%s', %s, %s FROM n`, events, id, strings.Repeat("d", 600), moment, moment))
		want := alice.Get(plaza).Body
		if n := strings.Count(want, `"id"`); n != events {
			t.Fatalf("%d events", n)
		}
		for range rounds {
			atOnce(clients, func(int) {
				if got := alice.Get(plaza).Body; got != want {
					t.Errorf("%d events in %d bytes, want %d in %d", strings.Count(got, `"id"`), len(got), events, len(want))
				}
			})
		}
	})
}

// open is openList of the large list.
func open(t *testing.T, s *servicetest.Service, c *servicetest.Client, deadline time.Time) (*http.Response, func()) {
	t.Helper()
	res, conn := openList(t, s, c, plaza, deadline)
	return res, func() { conn.Close() }
}

// openList begins to ask for a list and reads a little of it. It asks again when those before it still fill the buffers
// of the network with what they have not read.
func openList(t *testing.T, s *servicetest.Service, c *servicetest.Client, path string, deadline time.Time) (*http.Response, *net.TCPConn) {
	t.Helper()
	plain, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	plain.(*net.TCPConn).SetReadBuffer(4 << 10) // or the kernel would take megabytes for a client that reads nothing
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true})
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: token=%s\r\n\r\n", path, c.Cookie("token"))
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == 503 && time.Now().Before(deadline) {
		conn.Close()
		return openList(t, s, c, path, deadline)
	}
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	return res, plain.(*net.TCPConn)
}

// More slow readers than there are connections to the database keep nobody waiting.
func TestListEventsSlowReaders(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		crowd(t, s, "plaza", 50000)
		alice := s.SignIn("alice")
		for range 10 { // SQLite has eight connections for readers
			_, hangUp := open(t, s, alice, time.Now().Add(20*time.Second))
			defer hangUp()
		}
		servicetest.Eventually(t, 20*time.Second, "a connection is free", func() bool {
			return alice.Get("/api/event/quiet").Status == 200
		})
		id := alice.Create("quiet", "n", when)
		alice.Get("/api/event/quiet").Is(200, list(listed(id, "n", "", when, "alice")))
		alice.Get("/api/auth/refresh").Is(200, servicetest.Success)
	}, func(o *servicetest.Options) { o.DBMaxConns = 2 })
}

// A client that goes away in the middle leaves nothing behind.
func TestListEventsClientGone(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		want := crowd(t, s, "plaza", 50000)
		alice := s.SignIn("alice")
		for range 5 {
			_, hangUp := open(t, s, alice, time.Now().Add(20*time.Second))
			hangUp()
		}
		if got := usernames(t, alice.Get(plaza).Body); !equal(got, want) {
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
	crowd(t, s, "plaza", 100000)
	res, hangUp := open(t, s, s.SignIn("alice"), time.Now().Add(20*time.Second))
	defer hangUp()
	proxy.Down()
	rest, err := io.ReadAll(res.Body)
	if err == nil {
		t.Errorf("the response ends like a whole one, %d bytes on", len(rest))
	}
}

// Requests that share a query are each checked for themselves.
func TestListEventsSharedDeletedUser(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, ghost := s.SignIn("alice"), s.SignIn("ghost")
		id := alice.Create("plaza", "n", when)
		s.Database.Exec("DELETE FROM users WHERE username = 'ghost'")
		want := list(listed(id, "n", "", when, "alice"))
		atOnce(64, func(i int) {
			if i%2 == 0 {
				alice.Get(plaza).Is(200, want)
			} else {
				ghost.Get(plaza).IsError(401, "invalid_token")
			}
		})
	})
}

// Whoever shares a query reads what was acknowledged before they asked: their own writes and everybody's.
func TestListEventsReadsWrites(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		id := s.SignIn("host").Create("plaza", "n", when)
		other := s
		if s.Database.Dialect == "postgres" { // SQLite is for one instance: two fight for its one write lock
			other = s.NewInstance()
		}
		atOnce(24, func(i int) {
			name := fmt.Sprintf("user %d", i)
			c := s.SignIn(name)
			if i%2 == 1 {
				c = c.On(other)
			}
			for range 10 {
				c.Post("/api/event/join/"+id, "").Is(200, servicetest.Success)
				if !strings.Contains(c.Get(plaza).Body, `"`+name+`"`) {
					t.Errorf("%s joined and is not listed", name)
				}
				c.Delete("/api/event/"+id).Is(200, servicetest.Success)
				if strings.Contains(c.Get(plaza).Body, `"`+name+`"`) {
					t.Errorf("%s left and is listed", name)
				}
			}
		})
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
