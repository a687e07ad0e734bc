package events

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// many is a number of RSVPs of users with a longName whose list, of 1.4 MB, a client that does not read keeps waiting.
const many = 3_600

// longName and a number behind it are nearly as long as a username may be, in letters and in bytes.
var longName = strings.Repeat("🎲", 90)

// A large list is like any other, and its pages together are the same.
func TestListEventsLargeWorld(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		want := servicetest.Crowd(t, s, "plaza", 1, 0, 256, 0, 1696, 3, 3375, 1)
		alice := s.SignIn("alice")
		whole := alice.Get(servicetest.Plaza)
		servicetest.Is(t, servicetest.Usernames(t, whole.Body), want, "the attendees of the whole list")
		whole.HasHeader("Content-Length", fmt.Sprint(len(whole.Body))).HasHeader("Cache-Control", "private, no-cache")
		alice.Get(servicetest.Plaza, servicetest.IfNoneMatch(whole.Header.Get("ETag"))).Is(304, "")
		for _, limit := range []int{1, 5, len(want) - 1, len(want)} {
			var got [][]string
			servicetest.Walk(t, s, alice, fmt.Sprintf("%s?limit=%d", servicetest.Plaza, limit), func(t *testing.T, page string) []string {
				got = append(got, servicetest.Usernames(t, page)...)
				return nil
			})
			servicetest.Is(t, got, want, "the attendees in pages of %d", limit)
		}
	})
}

// slowly begins to ask for a list, reads a little of it, runs meanwhile, and then reads the rest.
func slowly(t *testing.T, s *servicetest.Service, c *servicetest.Client, path string, meanwhile func()) string {
	t.Helper()
	res, conn := servicetest.OpenListAt(t, s, c, path)
	defer conn.Close()
	begin := servicetest.Must(io.ReadAll(io.LimitReader(res.Body, 1000)))(t)
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

// A list is of one moment, however slowly it is read, and whatever is written or goes away meanwhile.
func TestListEventsIsOfOneMoment(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		// More than the network holds for a client that does not read.
		servicetest.AddEvents(s, "plaza", 8000, 900, 2030, strings.Repeat("d", 5000))
		alice := s.SignIn("alice")
		for _, query := range []string{"", "?limit=890"} {
			want := alice.Get(servicetest.Plaza + query).Body
			got := slowly(t, s, alice, servicetest.Plaza+query, func() {
				s.Database.Exec("DELETE FROM events WHERE id = (SELECT id FROM events WHERE name <> 'new' ORDER BY id DESC LIMIT 1)")
				haveAppear(s, 700)
			})
			servicetest.Is(t, got, want, "the list%s", query)
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
			servicetest.Eventually(t, "the request is logged", func() bool {
				return strings.Count(s.Log.String(), "listEvents") > before
			})
		}
		servicetest.Lacks(t, s.Log.String(), "ERROR")
	})
}

// A list of more than 32 MiB is refused at once, also for who would watch it, and its pages go on: also behind an event that is too
// long by itself.
func TestListEventsTooLong(t *testing.T) {
	const code = `,"fieldCodes":{"limit":"list_size"}`
	const whole, alone = `{"limit":"must be smaller, since the list would have more than 32 MiB"}` + code, `{"limit":"the next event alone would have more than 32 MiB: Link has the page behind it"}` + code
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const events = 1700
		servicetest.AddEvents(s, "plaza", 8000, events, 2030, strings.Repeat("🎲", 5000))
		alice := s.SignIn("alice")
		get := func(path string, options ...servicetest.RequestOption) (res *servicetest.Response) {
			servicetest.Within(t, time.Minute, path+" is read in time", func() bool { // on a busy machine it takes long
				res = alice.Get(path, options...)
				return res.Status != 503
			})
			return res
		}
		refused := func(path, fields string, options ...servicetest.RequestOption) *servicetest.Response {
			t.Helper()
			return get(path, options...).IsError(400, "validation_failed", "limit").Has(400, fields)
		}
		for range 3 {
			refused(servicetest.Plaza, whole).HasHeader("Link", "").HasHeader("ETag", "")
			refused(servicetest.Plaza+"?wait=50", whole, servicetest.IfNoneMatch(`"x"`))
			refused(servicetest.Plaza, whole, servicetest.IfNoneMatch("*"))
		}
		pages := func(limit int) (ids []string) {
			for path := fmt.Sprintf("%s?limit=%d", servicetest.Plaza, limit); path != ""; {
				page := get(path)
				if page.Status == 400 {
					refused(path, alone) // and its Link goes on
				} else {
					ids = append(ids, servicetest.EventIDs(t, page.Has(200).Body)...)
				}
				path = ""
				if page.Header.Get("Link") != "" {
					path = servicetest.NextPage(t, s, page).RequestURI()
				}
			}
			return ids
		}
		servicetest.Is(t, len(pages(800)), events, "events")
		// The second of three events has many users with long names, of which each byte is two in JSON.
		number, id, at, bound := "CAST(i AS text)", "CAST('00000000-0000-7000-9000-' || lpad(CAST(i AS text), 12, '0') AS uuid)", "now()", "generate_series(1, 170000) n (i)"
		if s.Database.Dialect == "sqlite" {
			number, id, at = "i", "printf('00000000-0000-7000-9000-%012d', i)", "'2030-01-01 00:00:00+00:00'"
			bound = "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 170000) SELECT i FROM n)"
		}
		s.Database.Exec(fmt.Sprintf("INSERT INTO users (id, username, created_at) SELECT %s, '%s' || %s, %s FROM %s", id, strings.Repeat(`"`, 90), number, at, bound))
		s.Database.Exec("DELETE FROM events WHERE id > '00000000-0000-7000-8000-000000000003'")
		s.Database.Exec("INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT e.number, u.number, u.username, " + at +
			` FROM events e, users u WHERE u.username LIKE '""%'` +
			" AND e.id = (SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET 1)")
		refused(servicetest.Plaza, whole).HasHeader("Link", "")
		refused(servicetest.Plaza+"?limit=2", whole).HasHeader("Link", "")
		servicetest.Is(t, len(pages(1)), 2, "events in pages")
	})
}
