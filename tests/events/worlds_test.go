package events

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// owner imitates the system that owns the worlds. It lets everybody in, without keeping answers, unless a test says otherwise.
type owner struct {
	*httptest.Server

	mu     sync.Mutex
	asked  []url.Values
	sent   []string // the header Authorization, and the URL's own query
	answer func(w http.ResponseWriter, q url.Values)
}

// owned is the option to ask a new owner, which a test may reach.
func owned(t *testing.T) (*owner, servicetest.Option) {
	o := &owner{answer: status(200, "max-age=0")}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/may" { // as after a redirect
			return
		}
		own, _, _ := strings.Cut(r.URL.RawQuery, "&action=")
		o.mu.Lock()
		o.asked, o.sent = append(o.asked, r.URL.Query()), append(o.sent, r.Header.Get("Authorization")+" "+own)
		answer := o.answer
		o.mu.Unlock()
		answer(w, r.URL.Query())
	}))
	t.Cleanup(o.Close)
	u, _ := url.Parse(o.URL + "/may?tenant=a%26b&100%")
	return o, func(options *servicetest.Options) {
		options.WorldAccess, options.WorldToken = u, "token-of-the-owner"
	}
}

// ownedEach is servicetest.Each for a service that asks an owner.
func ownedEach(t *testing.T, test func(t *testing.T, s *servicetest.Service, o *owner)) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		o, asks := owned(t)
		test(t, servicetest.Start(t, db, asks), o)
	})
}

// says sets the answer to all questions from now on.
func (o *owner) says(answer func(w http.ResponseWriter, q url.Values)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

// questions forgets and returns the questions since the last call.
func (o *owner) questions() (asked []url.Values) {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked, o.asked = o.asked, nil
	return asked
}

func status(code int, control string) func(http.ResponseWriter, url.Values) {
	return func(w http.ResponseWriter, _ url.Values) {
		if control != "" {
			w.Header().Set("Cache-Control", control)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
	}
}

// An answer is yes, no, or none, for each operation on a world.
func TestOwnerOfWorlds(t *testing.T) {
	ownedEach(t, func(t *testing.T, s *servicetest.Service, o *owner) {
		alice := s.SignIn("alice")
		id := alice.Create("plaza", "a", servicetest.When)
		long := func(n int) func(http.ResponseWriter, url.Values) {
			return func(w http.ResponseWriter, _ url.Values) {
				w.Header().Set("Cache-Control", "no-store")
				w.Write(make([]byte, n))
			}
		}
		for name, row := range map[string]struct {
			answer func(http.ResponseWriter, url.Values)
			code   string
		}{
			"200": {status(200, "max-age=0"), ""}, "204": {status(204, "no-store"), ""}, "299": {status(299, "no-cache"), ""}, "64 KiB": {long(64 << 10), ""},
			"401": {status(401, "max-age=0"), "forbidden"}, "403": {status(403, "max-age=0"), "forbidden"}, "404": {status(404, "max-age=0"), "forbidden"},
			"302": {status(302, ""), "overloaded"}, "304": {status(304, ""), "overloaded"}, "410": {status(410, ""), "overloaded"}, "429": {status(429, ""), "overloaded"},
			"500": {status(500, ""), "overloaded"}, "503": {status(503, ""), "overloaded"}, "more": {long(64<<10 + 1), "overloaded"},
			"broken": {func(http.ResponseWriter, url.Values) { panic(http.ErrAbortHandler) }, "overloaded"},
		} {
			o.says(row.answer)
			for operation, do := range map[string]func() *servicetest.Response{
				"list":   func() *servicetest.Response { return alice.Get(servicetest.Plaza) },
				"create": func() *servicetest.Response { return alice.Post(servicetest.Plaza, servicetest.EventBody) },
				"join":   func() *servicetest.Response { return alice.Post("/api/event/join/"+id, "") },
			} {
				switch r := do(); row.code {
				case "":
					servicetest.Is(t, r.Status, 200, "%s after %s", operation, name)
				case "forbidden":
					r.IsError(403, "forbidden")
				default:
					r.IsError(503, "overloaded").HasHeader("Retry-After", "1")
				}
			}
		}
		servicetest.Lacks(t, s.Log.String(), "token-of-the-owner")
		servicetest.True(t, servicetest.Metric(t, s, `worldevents_world_questions_seconds_count{answer="no"}`) == 9, "counted noes")
	})
}

// The owner is asked about the user, the world and the action, and about nothing else.
func TestQuestionsToTheOwner(t *testing.T) {
	ownedEach(t, func(t *testing.T, s *servicetest.Service, o *owner) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		s.Database.Exec("UPDATE users SET issuer = 'https://login.example.org', subject = 'sub & co' WHERE username = 'bob'")
		const world = "a&world=b#c%0Ad /é"
		path := "/api/event/" + url.PathEscape(world)
		id := alice.Create(world, "a", servicetest.When)
		for range 2 {
			alice.Post(path, servicetest.EventBody, servicetest.Header("Idempotency-Key", "k")).Has(200)
		}
		bob.Get(path).Has(200)
		bob.Post("/api/event/join/"+id, "").Has(200)
		var got []string
		users := make(map[string]string)
		for _, q := range o.questions() {
			user := q.Get("username") + q.Get("subject")
			users[user] = q.Get("user")
			got = append(got, fmt.Sprintf("%s %s %q %s %d", user, q.Get("action"), q.Get("world"), q.Get("tenant"), len(q)))
		}
		servicetest.Is(t, strings.Join(got, "\n"), strings.ReplaceAll(`alice create W a&b 5
alice create W a&b 5
alice create W a&b 5
sub & co list W a&b 5
sub & co join W a&b 5`, "W", fmt.Sprintf("%q", world)), "questions")
		servicetest.Is(t, users, map[string]string{"alice": alice.Session.UserID, "sub & co": bob.Session.UserID}, "ids of users")
		for _, sent := range o.sent {
			servicetest.Is(t, sent, "Bearer token-of-the-owner tenant=a%26b&100%", "what is sent beside the question")
		}

		o.says(status(403, "max-age=0"))
		bob.Post("/api/event/join/"+servicetest.IDOf(7), "").IsError(404, "event_not_found")
		bob.Post("/api/event/join/x", "").IsError(404, "event_not_found")
		bob.Delete("/api/event/"+id).Is(200, servicetest.Success)
		bob.Get("/api/auth/session").Has(200)
		bob.Get("/events").Has(200)
		bob.Get(path+"?limit=0").IsError(400, "validation_failed", "limit")
		bob.Post(path, "{}").Has(400)
		s.Client().Get(path).IsError(401, "no_token")
		s.Database.Exec("UPDATE sessions SET revoked_at = created_at")
		bob.Get(path).IsError(401, "invalid_token")
		bob.Post("/api/event/join/"+id, "").IsError(401, "invalid_token")
		bob.Post("/api/event/join/"+servicetest.IDOf(7), "").IsError(401, "invalid_token")
		servicetest.Is(t, len(o.questions()), 0, "questions about the rest")
	})
}

// An answer counts for as long as the owner says, within bounds, for one user, world and action.
func TestKeptAnswers(t *testing.T) {
	o, asks := owned(t)
	s := servicetest.New(t, asks)
	s.Clock.Freeze(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	alice, bob := s.SignIn("alice"), s.SignIn("bob")
	world := 0
	fresh := func() string { world++; return fmt.Sprintf("/api/event/w%d", world) }
	for _, row := range []struct {
		status      int
		control     string
		least, most int // seconds that the answer counts for
	}{
		{200, "", 48, 60}, {200, "private", 48, 60}, {200, "max-age=30", 24, 30}, {200, `Private, MAX-AGE="30"`, 24, 30}, {200, "max-age=1000000000000", 48, 60},
		{200, "max-age=99999999999999999999999", 48, 60}, {200, "max-age=x", 0, 0}, {200, "max-age=-1", 0, 0}, {200, "max-age=60, no-store", 0, 0}, {200, "no-cache", 0, 0},
		{403, "", 4, 5}, {404, "max-age=20", 16, 20}, {401, "max-age=3600", 48, 60}, {403, "no-store", 0, 0}, {500, "max-age=60", 0, 0},
	} {
		path := fresh()
		o.says(status(row.status, row.control))
		is := func(after int, asked bool) {
			t.Helper()
			s.Clock.Advance(time.Duration(after) * time.Second)
			alice.Get(path)
			servicetest.Is(t, len(o.questions()) > 0, asked, "asked again %d s after %d with Cache-Control: %s", after, row.status, row.control)
		}
		alice.Get(path)
		o.questions()
		if row.least > 0 {
			is(row.least-1, false)
		}
		is(row.most-max(0, row.least-1), true)
	}
	// It is another's for another user, world or action.
	path := fresh()
	o.says(status(200, ""))
	alice.Get(path)
	bob.Get(path)
	alice.Post(path, servicetest.EventBody).Has(200)
	alice.Get(fresh())
	servicetest.Is(t, len(o.questions()), 4, "questions")
	// A kept yes lets nobody in whose session has ended.
	s.Database.Exec("UPDATE sessions SET revoked_at = created_at")
	alice.Get(path).IsError(401, "invalid_token")
}

// The last yes outlives a failure of the owner for as long as it said, ten minutes at most. A no does not, and nor does anything after a no.
func TestStaleAnswers(t *testing.T) {
	o, asks := owned(t)
	s := servicetest.New(t, asks)
	s.Clock.Freeze(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	alice := s.SignIn("alice")
	const control = "max-age=10, stale-if-error=86400"
	after := func(d time.Duration, code int, want int, asked int) {
		t.Helper()
		o.says(status(code, control))
		s.Clock.Advance(d)
		servicetest.Is(t, alice.Get(servicetest.Plaza).Status, want, "after %v of %d", d, code)
		servicetest.Is(t, len(o.questions()), asked, "questions")
	}
	after(0, 200, 200, 1)
	after(7*time.Second, 500, 200, 0)
	after(5*time.Second, 500, 200, 1)
	after(4*time.Second, 500, 200, 0) // nor is it asked for each list
	after(2*time.Second, 500, 200, 1)
	after(580*time.Second, 500, 200, 1)
	after(15*time.Second, 500, 503, 1)
	after(0, 200, 200, 1)
	after(11*time.Second, 403, 403, 1)
	after(11*time.Second, 500, 503, 1)
	after(0, 500, 503, 1)
}

// Whoever is put out of a world gets its list no more, by a watch neither.
func TestWatchOfAForbiddenWorld(t *testing.T) {
	ownedEach(t, func(t *testing.T, s *servicetest.Service, o *owner) {
		bob := s.SignIn("bob")
		for _, row := range []struct {
			status int
			code   string
		}{{403, "forbidden"}, {500, "overloaded"}} {
			o.says(status(200, "max-age=0"))
			alice, _, tag := servicetest.WatcherOf(s)
			news := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag)
			end := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=1", tag)
			o.says(func(w http.ResponseWriter, q url.Values) {
				if q.Get("username") == "alice" {
					status(row.status, "max-age=0")(w, q)
				}
			})
			servicetest.Come(t, end).IsError(map[string]int{"forbidden": 403, "overloaded": 503}[row.code], row.code)
			bob.Create("plaza", "news", servicetest.When)
			servicetest.Come(t, news).IsError(map[string]int{"forbidden": 403, "overloaded": 503}[row.code], row.code)
		}
	})
}

// The answer about a watcher is asked for again before it runs out, so that not all watchers ask together when the list changes.
func TestWatchRenewsItsAnswer(t *testing.T) {
	o, asks := owned(t)
	s := servicetest.New(t, asks)
	o.says(status(200, "max-age=3"))
	alice, _, tag := servicetest.WatcherOf(s)
	news := servicetest.Await(t, s, alice, servicetest.Plaza+"?wait=50", tag)
	o.questions()
	servicetest.Eventually(t, "the owner is asked again", func() bool { return len(o.questions()) == 1 })
	s.SignIn("bob").Create("plaza", "news", servicetest.When)
	servicetest.Come(t, news).Has(200)
}

// A join is for the world that was asked about, whoever moves the event meanwhile.
func TestJoinOfAMovedEvent(t *testing.T) {
	ownedEach(t, func(t *testing.T, s *servicetest.Service, o *owner) {
		alice, bob := s.SignIn("alice"), s.SignIn("bob")
		for _, row := range []struct {
			moves  int
			status int
			worlds string
		}{{0, 200, "open"}, {1, 403, "open private"}, {2, 404, "open open2"}} {
			o.says(status(200, "max-age=0"))
			id := alice.Create("open", "a", servicetest.When)
			o.questions()
			moves := row.moves
			o.says(func(w http.ResponseWriter, q url.Values) {
				if q.Get("world") == "private" {
					w.WriteHeader(403)
				}
				if moves--; moves >= 0 {
					to := "private"
					if row.moves == 2 {
						to = q.Get("world") + "2"
					}
					s.Database.Exec("UPDATE events SET world_id = ? WHERE id = ?", to, id)
				}
				w.Header().Set("Cache-Control", "max-age=0")
			})
			servicetest.Is(t, bob.Post("/api/event/join/"+id, "").Status, row.status, "%d moves", row.moves)
			var asked []string
			for _, q := range o.questions() {
				asked = append(asked, q.Get("world"))
			}
			servicetest.Is(t, strings.Join(asked, " "), row.worlds, "worlds asked about")
		}
		servicetest.Is(t, s.Database.Count("rsvps r JOIN users u ON u.number = r.user_number WHERE u.username = 'bob'"), 1, "RSVPs of bob")
	})
}

// Equal questions that come together are one, and a slow owner keeps nobody else waiting.
func TestSlowOwner(t *testing.T) {
	o, asks := owned(t)
	s := servicetest.New(t, asks)
	alice, bob := s.SignIn("alice"), s.SignIn("bob")
	answers := make(chan struct{})
	release := sync.OnceFunc(func() { close(answers) })
	t.Cleanup(release)
	o.says(func(w http.ResponseWriter, q url.Values) {
		if q.Get("username") == "alice" {
			<-answers
		}
	})
	var all []<-chan servicetest.Arrived
	for i := range 40 {
		res := make(chan servicetest.Arrived, 1)
		all = append(all, res)
		go func() { res <- servicetest.Arrived{Response: alice.Get(fmt.Sprintf("/api/event/w%d", i%20))} }()
	}
	servicetest.Eventually(t, "alice's share is asked for", func() bool { return servicetest.Held(t, s, "world_questions") == 8 })
	for i := range 100 {
		bob.Get(fmt.Sprintf("/api/event/w%d", i)).Has(200)
	}
	servicetest.Is(t, servicetest.Held(t, s, "requests"), 0, "places in flight")
	release()
	allCome(t, all)
	servicetest.Is(t, len(o.questions()), 120, "questions")
}

// An owner that never answers, or never ends its answer, is none.
func TestSilentOwner(t *testing.T) {
	o, asks := owned(t)
	s := servicetest.New(t, asks)
	alice := s.SignIn("alice")
	gone := make(chan struct{})
	defer close(gone)
	for name, answer := range map[string]func(http.ResponseWriter, url.Values){
		"silent": func(http.ResponseWriter, url.Values) { <-gone },
		"endless": func(w http.ResponseWriter, _ url.Values) {
			for range 60 {
				w.Write([]byte("x"))
				w.(http.Flusher).Flush()
				select {
				case <-gone:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		},
	} {
		o.says(answer)
		begin := time.Now()
		alice.Get(servicetest.Plaza).IsError(503, "overloaded")
		servicetest.True(t, time.Since(begin) > 1500*time.Millisecond, "%s: given up after %v", name, time.Since(begin))
	}
}
