package tests

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// The words that several files of tests share.

const (
	plaza = "/api/event/plaza"
	when  = "2030-01-02T03:04:05.000Z"
	event = `{"name":"Chess","description":"Bring a board.","scheduledAt":"` + when + `"}`
)

const (
	session = "/api/auth/session"
	refresh = "/api/auth/refresh"
)

var asForm = servicetest.Header("Content-Type", "application/x-www-form-urlencoded")

// chunked sends a body without saying how long it is.
func chunked(r *http.Request) { r.ContentLength, r.GetBody = -1, nil }

// ifNoneMatch is sent by those who have a list already.
func ifNoneMatch(tag string) servicetest.RequestOption {
	return servicetest.Header("If-None-Match", tag)
}

// listed is the JSON of an event in a list.
func listed(id, name, description, scheduledAt string, usernames ...string) string {
	rsvps := make([]string, len(usernames))
	for i, username := range usernames {
		rsvps[i] = `{"user":{"username":` + quote(username) + `}}`
	}
	return fmt.Sprintf(`{"id":"%s","name":%s,"description":%s,"scheduledAt":"%s","RSVPs":[%s]}`,
		id, quote(name), quote(description), scheduledAt, strings.Join(rsvps, ","))
}

// list is the body of a list.
func list(events ...string) string { return `{"events":[` + strings.Join(events, ",") + `]}` }

// quote is JSON text without the escapes that only HTML needs.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(text)
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(b.String(), "\n"))
}

func eventIDs(t *testing.T, body string) []string { return members(t, body, "id") }

func names(t *testing.T, body string) []string { return members(t, body, "name") }

// members picks one member of each event in a list.
func members(t *testing.T, body, name string) (all []string) {
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

// usernames reads a list's usernames, event by event.
func usernames(t *testing.T, body string) (got [][]string) {
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

// walk follows the Links to the last page and joins what pick finds in each.
func walk(t *testing.T, s *servicetest.Service, c *servicetest.Client, path string, pick func(*testing.T, string) []string) (all []string) {
	t.Helper()
	for range 100 {
		res := c.Get(path)
		all = append(all, pick(t, res.Body)...)
		if res.Header.Get("Link") == "" {
			return all
		}
		path = nextPage(t, s, res).RequestURI()
	}
	t.Fatal("the pages have no end")
	return nil
}

// nextPage reads the Link of a page.
func nextPage(t *testing.T, s *servicetest.Service, res *servicetest.Response) *url.URL {
	t.Helper()
	link := res.Header.Get("Link")
	target, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	u, err := url.Parse(target)
	if !ok || err != nil || !strings.HasPrefix(target, s.URL+"/api/event/") {
		t.Fatalf("Link %q", link)
	}
	return u
}

func at(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }

func idOf(n int) string { return fmt.Sprintf("00000000-0000-7000-8001-%012d", n) }

// addEvent makes event n behind the service's back, in 2031.
func addEvent(s *servicetest.Service, world string, n int, name, description string) {
	s.Database.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) VALUES (?, ?, ?, ?, ?, ?)",
		idOf(n), world, name, description, at(2031), at(2030))
}

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

// crowd is a world of events with these numbers of RSVPs, whose users' names are long so that the list is large. It is
// written behind the service's back. The result is the usernames expected of each event.
func crowd(t *testing.T, s *servicetest.Service, world string, sizes ...int) (want [][]string) {
	t.Helper()
	id := func(kind int, n string) string {
		if s.Database.Dialect == "postgres" {
			return fmt.Sprintf("CAST('00000000-0000-7000-%04d-' || lpad(CAST(%s AS text), 12, '0') AS uuid)", kind, n)
		}
		return fmt.Sprintf("printf('00000000-0000-7000-%04d-%%012d', %s)", kind, n)
	}
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
	const moment = "'2030-01-01 00:00:00+00:00'"
	name := func(i int) string { return fmt.Sprintf("%s %d", strings.Repeat("é", 40), i) }
	s.Database.Exec(fmt.Sprintf("INSERT INTO users (id, username, created_at) "+numbers+
		"SELECT %s, '%s ' || CAST(i AS text), %s FROM n", slices.Max(sizes), id(9000, "i"), strings.Repeat("é", 40), moment))
	for e, size := range sizes {
		event := id(8000, fmt.Sprint(e))
		s.Database.Exec("INSERT INTO events (id, world_id, name, description, scheduled_at, created_at) SELECT "+
			event+", ?, 'n', '', "+moment+", "+moment, world)
		var names []string
		if size > 0 {
			s.Database.Exec(fmt.Sprintf("INSERT INTO rsvps (event_number, user_number, username, created_at) "+numbers+
				"SELECT e.number, u.number, u.username, %s FROM n JOIN users u ON u.id = %s JOIN events e ON e.id = %s", size, moment, id(9000, "i"), event))
			for i := range size {
				names = append(names, name(i+1))
			}
		}
		want = append(want, names)
	}
	return want
}

// atOnce calls f n times concurrently, at most 200 at a time, all waiting for the same start.
func atOnce(n int, f func(i int)) {
	var wait sync.WaitGroup
	begin, next := make(chan struct{}), atomic.Int64{}
	for range min(n, 200) {
		wait.Go(func() {
			<-begin
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	close(begin)
	wait.Wait()
}

// retried repeats a call that was refused as too much at once, as clients do.
func retried(call func() *servicetest.Response) (res *servicetest.Response) {
	for range 100 {
		if res = call(); res.Status != 503 {
			break
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
	return res
}

// patient makes room for many requests at once, which a test on two cores cannot serve within a second.
func patient(o *servicetest.Options) { o.DBTimeout, o.DBMaxConns = 60*time.Second, 20 }

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// decode reads header and claims of a JWT.
func decode(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	for i, into := range []*map[string]any{&header, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(text, into) != nil {
			t.Fatalf("part %d of %s", i, token)
		}
	}
	return header, claims
}

// nonCanonical changes the bits of the last character that decode to nothing.
func nonCanonical(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last^1])
}

// metrics is what Prometheus would read.
func metrics(t *testing.T, s *servicetest.Service) string {
	t.Helper()
	status, text := adminGet(t, s, "/metrics")
	if status != 200 {
		t.Fatalf("/metrics: %d %s", status, text)
	}
	return text
}

func adminGet(t *testing.T, s *servicetest.Service, path string) (int, string) {
	t.Helper()
	res, err := http.Get(s.AdminURL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
