package servicetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	Plaza     = "/api/event/plaza"
	When      = "2030-01-02T03:04:05.000Z"
	EventBody = `{"name":"Chess","description":"Bring a board.","scheduledAt":"` + When + `"}`
)

// Listed is the JSON of an event in a list.
func Listed(id, name, description, scheduledAt string, usernames ...string) string {
	rsvps := make([]string, len(usernames))
	for i, username := range usernames {
		rsvps[i] = `{"user":{"username":` + Quote(username) + `}}`
	}
	return fmt.Sprintf(`{"id":"%s","name":%s,"description":%s,"scheduledAt":"%s","RSVPs":[%s]}`,
		id, Quote(name), Quote(description), scheduledAt, strings.Join(rsvps, ","))
}

// List is the body of a list.
func List(events ...string) string { return `{"events":[` + strings.Join(events, ",") + `]}` }

// Quote is a text as JSON.
func Quote(text string) string { return asJSON(text) }

// asJSON is JSON without the escapes that only HTML needs.
func asJSON(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(value)
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(b.String(), "\n"))
}

func EventIDs(t *testing.T, body string) []string { return Members(t, body, "id") }

func EventNames(t *testing.T, body string) []string { return Members(t, body, "name") }

// Members picks one member of each event in a list.
func Members(t *testing.T, body, name string) (all []string) {
	t.Helper()
	var list struct{ Events []map[string]any }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, event := range list.Events {
		all = append(all, event[name].(string))
	}
	return all
}

// Usernames reads a list's usernames, event by event.
func Usernames(t *testing.T, body string) (got [][]string) {
	t.Helper()
	var list struct {
		Events []struct {
			RSVPs []struct{ User struct{ Username string } }
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v at the end of %d bytes", err, len(body))
	}
	for _, e := range list.Events {
		var names []string
		for _, r := range e.RSVPs {
			names = append(names, r.User.Username)
		}
		got = append(got, names)
	}
	return got
}

// Walk follows the Links to the last page and joins what pick finds in each.
func Walk(t *testing.T, s *Service, c *Client, path string, pick func(*testing.T, string) []string) (all []string) {
	t.Helper()
	for range 100 {
		res := c.Get(path)
		all = append(all, pick(t, res.Body)...)
		if res.Header.Get("Link") == "" {
			return all
		}
		path = NextPage(t, s, res).RequestURI()
	}
	t.Fatal("the pages have no end")
	return nil
}

// NextPage reads the Link of a page.
func NextPage(t *testing.T, s *Service, res *Response) *url.URL {
	t.Helper()
	link := res.Header.Get("Link")
	target, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	u, err := url.Parse(target)
	if !ok || err != nil || !strings.HasPrefix(target, s.URL+"/api/event/") {
		t.Fatalf("Link %q", link)
	}
	return u
}

func At(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }

func IDOf(n int) string { return fmt.Sprintf("00000000-0000-7000-8001-%012d", n) }

// AddEvent makes event n behind the service's back, in 2031.
func AddEvent(s *Service, world string, n int, name, description string) {
	s.Database.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, ?, ?, ?, ?, ?)",
		IDOf(n), world, name, description, At(2031), At(2030))
}

// AddEvents writes events of the world behind the service's back, an hour apart from the year on, with ids of a kind.
func AddEvents(s *Service, world string, kind, n, year int, description string) {
	at := fmt.Sprintf("CAST('%d-01-01 00:00:00+00' AS timestamptz) + i * interval '1 hour'", year)
	if s.Database.Dialect == "sqlite" {
		at = fmt.Sprintf("datetime('%d-01-01 00:00:00', i || ' hours') || '+00:00'", year)
	}
	s.Database.Exec(fmt.Sprintf("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) %s SELECT %s, '%s', 'n', '%s', %s, %s FROM n",
		numbers(n), s.Database.idOf(kind, "i"), world, description, at, moment))
}

// moment is when rows were made that tests write.
const moment = "'2030-01-01 00:00:00+00:00'"

// numbers begins a query with a table n of the numbers i from 1 to n.
func numbers(n int) string {
	return fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
}

// idOf is an id of a kind in a statement, with a number that is an expression.
func (d *Database) idOf(kind int, number string) string {
	if d.Dialect == "sqlite" {
		return fmt.Sprintf("printf('00000000-0000-7000-%04d-%%012d', %s)", kind, number)
	}
	return fmt.Sprintf("CAST('00000000-0000-7000-%04d-' || lpad(CAST(%s AS text), 12, '0') AS uuid)", kind, number)
}

// Crowd is a world of events with these numbers of RSVPs, whose users' names are long so that the list is large. It is
// written behind the service's back. The result is the usernames expected of each event.
func Crowd(t *testing.T, s *Service, world string, sizes ...int) (want [][]string) {
	t.Helper()
	return CrowdOf(t, s, strings.Repeat("é", 40), world, sizes...)
}

// CrowdOf is Crowd with usernames that begin so. Fewer of longer ones make a list as large, and are written sooner.
func CrowdOf(t *testing.T, s *Service, name, world string, sizes ...int) (want [][]string) {
	t.Helper()
	id := s.Database.idOf
	s.Database.Exec(fmt.Sprintf("INSERT INTO users (id, username, created_at) %s SELECT %s, '%s ' || CAST(i AS text), %s FROM n",
		numbers(slices.Max(sizes)), id(9000, "i"), name, moment))
	for e, size := range sizes {
		event := id(8000, fmt.Sprint(e))
		s.Database.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) SELECT "+
			event+", ?, 'n', '', "+moment+", "+moment, world)
		var names []string
		if size > 0 {
			s.Database.Exec(fmt.Sprintf("INSERT INTO rsvps (event_number, user_number, username, created_at) %s"+
				"SELECT e.number, u.number, u.username, %s FROM n JOIN users u ON u.id = %s JOIN events e ON e.id = %s", numbers(size), moment, id(9000, "i"), event))
			for i := range size {
				names = append(names, fmt.Sprint(name, " ", i+1))
			}
		}
		want = append(want, names)
	}
	return want
}

func Equal(a, b any) bool { return reflect.DeepEqual(a, b) }
