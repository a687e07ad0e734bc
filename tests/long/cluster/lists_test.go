package cluster

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// lists asks two instances for the lists of worlds, in all ways, and holds every response against what the database had while the
// request ran.
type lists struct {
	t         *testing.T
	instances []*instance
	worlds    []string
	nobody    *servicetest.Browser // who is not signed in
	// leader is where the truth is read.
	leader *node
	reader *servicetest.Browser

	// epochs are in the order of time. Only the goroutine of the test uses them.
	epochs []epoch

	mu      sync.Mutex
	answers []answer            // which are yet to be judged
	tags    map[string][]string // each world's ETags that anybody has seen
	bodies  map[string]string   // by ETag
	tagOf   map[string]string   // by body
}

// epoch is what the database had from a time on. The change to it began at begin, and had happened at end.
type epoch struct {
	begin, end time.Time
	lists      map[string]string
}

// answer is a response to a request for a list, with its content and not its gzip.
type answer struct {
	instance     *instance
	world, query string
	tags         []string
	response
}

func newLists(t *testing.T, leader *node, instances []*instance, worlds ...string) *lists {
	l := &lists{t: t, instances: instances, worlds: worlds, nobody: newBrowser(t, instances[0].process.URL), leader: leader,
		tags: make(map[string][]string), bodies: make(map[string]string), tagOf: make(map[string]string)}
	l.reader = l.signIn("reader")
	return l
}

// signIn signs a user in, whose cookies are those of both instances.
func (l *lists) signIn(name string) *servicetest.Browser {
	l.t.Helper()
	b := l.nobody.Clone()
	b.Timeout = time.Minute
	b.SignIn(name).Is(l.t, 303)
	return b
}

// do sends a request of a user to an instance.
func (l *lists) do(i *instance, user *servicetest.Browser, method, path, body string, with ...servicetest.RequestOption) response {
	b := user.Clone() // others use it at the same time
	b.URL = i.process.URL
	return b.Do(method, path, body, with...)
}

// write has a user write until the instance does not fail: soon after a failover it may say that it does not know whether the write
// has happened. So a create needs a key.
func (l *lists) write(i *instance, user *servicetest.Browser, method, path, body string, with ...servicetest.RequestOption) response {
	l.t.Helper()
	var res response
	servicetest.Eventually(l.t, method+" "+path+" succeeds", func() bool {
		if res = l.do(i, user, method, "/api/event/"+path, body, with...); res.Status != 200 && res.Status != 500 && res.Status != 503 {
			l.t.Fatalf("%s %s: %v", method, path, res)
		}
		return res.Status == 200
	})
	return res
}

// change is the one way to change lists. It says when that was, and keeps what they have become.
func (l *lists) change(act func()) {
	l.t.Helper()
	begin := time.Now()
	act()
	end := time.Now()
	l.epochs = append(l.epochs, epoch{begin, end, l.leader.lists(l.t)})
}

// now is what the database has.
func (l *lists) now() map[string]string { return l.epochs[len(l.epochs)-1].lists }

// lists reads the lists of all worlds that have events as the contract spells them, and not with the service's own SQL.
func (n *node) lists(t *testing.T) map[string]string {
	t.Helper()
	var text string
	servicetest.NoError(t, n.read(t, "worldevents", `SELECT coalesce(json_agg(e), '[]') FROM (
		SELECT world_id AS world, id, name, description, to_char(scheduled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at,
			(SELECT json_agg(username ORDER BY created_at, user_number) FROM rsvps WHERE event_number = number) AS users
		FROM events ORDER BY world_id, scheduled_at, id) e`, &text))
	var rows []struct {
		World, ID, Name, Description, At string
		Users                            []string
	}
	servicetest.NoError(t, json.Unmarshal([]byte(text), &rows))
	events, lists := make(map[string][]string), make(map[string]string)
	for _, e := range rows {
		events[e.World] = append(events[e.World], servicetest.Listed(e.ID, e.Name, e.Description, e.At, e.Users...))
	}
	for world, all := range events {
		lists[world] = servicetest.List(all...)
	}
	return lists
}

// body is the list of a world among those that node.lists returns.
func body(lists map[string]string, world string) string {
	if list, ok := lists[world]; ok {
		return list
	}
	return servicetest.List()
}

// ask asks an instance for a list, and keeps the response for the judge.
func (l *lists) ask(i *instance, world, query, coding string, tags ...string) answer {
	with := []servicetest.RequestOption{servicetest.Accepting(coding)}
	if len(tags) > 0 {
		with = append(with, servicetest.IfNoneMatch(strings.Join(tags, ", ")))
	}
	a := answer{i, world, query, tags, l.do(i, l.reader, "GET", "/api/event/"+world+query, "", with...)}
	if text, err := servicetest.Decompress(a.Header, []byte(a.Body)); err == nil {
		a.Body = string(text)
	} else {
		a.Err = err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
	if tag := a.Header.Get("ETag"); a.Status == 200 && !slices.Contains(l.tags[world], tag) {
		l.tags[world] = append(l.tags[world], tag)
		l.bodies[tag] = cmp.Or(l.bodies[tag], a.Body) // empty worlds share one
		l.tagOf[a.Body] = cmp.Or(l.tagOf[a.Body], tag)
	}
	return a
}

// each calls ask with all that can be asked about a world: for the list, plain and as gzip, and whether it still is one of those that
// anybody has seen, one by one and all at once.
func (l *lists) each(world string, ask func(coding string, tags ...string)) {
	l.mu.Lock()
	tags := slices.Clone(l.tags[world])
	l.mu.Unlock()
	ask("identity")
	ask("gzip")
	for _, tag := range tags {
		ask("identity", tag)
	}
	ask("gzip", tags[max(0, len(tags)-16):]...) // with more it would count as absent
}

// askOn asks both instances about all worlds, again and again until the test ends.
func (l *lists) askOn() {
	stopped := make(chan struct{})
	var all sync.WaitGroup
	for _, i := range l.instances {
		for range 2 {
			all.Go(func() {
				for n := 0; ; n++ {
					l.each(l.worlds[n%len(l.worlds)], func(coding string, tags ...string) {
						select {
						case <-stopped:
						case <-time.After(5 * time.Millisecond):
							l.ask(i, l.worlds[n%len(l.worlds)], "", coding, tags...)
						}
					})
					select {
					case <-stopped:
						return
					default:
					}
				}
			})
		}
	}
	l.t.Cleanup(func() {
		close(stopped)
		all.Wait()
	})
}

// check has both instances answer everything, spelled in these ways, and judges what they have said since the last check.
func (l *lists) check(stage string, queries ...string) {
	l.t.Helper()
	for _, i := range l.instances {
		for _, query := range queries {
			for _, world := range l.worlds {
				l.each(world, func(coding string, tags ...string) {
					servicetest.Eventually(l.t, i.name+" lists "+world, func() bool {
						status := l.ask(i, world, query, coding, tags...).Status
						return status == 200 || status == 304
					})
				})
			}
		}
	}
	l.judge(stage)
}

// judge fails the test where a response was not what the database had at some time during its request.
func (l *lists) judge(stage string) {
	l.t.Helper()
	l.mu.Lock()
	answers := l.answers
	l.answers = nil
	l.mu.Unlock()
	statuses := make(map[int]int)
	wrong, compressed := 0, 0
	for _, a := range answers {
		if statuses[a.Status]++; a.Header.Get("Content-Encoding") == "gzip" {
			compressed++
		}
		if fault := l.fault(a); fault != "" {
			if wrong++; wrong <= 5 {
				l.t.Errorf("%s: %s: %s%s for who has %q: %d %v after %v: %s", stage, a.instance.name, a.world, a.query, a.tags, a.Status, a.Err, a.Took.Round(time.Millisecond), fault)
			}
		}
	}
	l.t.Logf("%s: %d lists, %d of them as gzip, %d times unchanged, %d times no list, %d wrong", stage, statuses[200], compressed, statuses[304], statuses[500]+statuses[503], wrong)
}

// fault says what is wrong with a response, if anything is.
func (l *lists) fault(a answer) string {
	tag := a.Header.Get("ETag")
	l.mu.Lock()
	list, known := l.bodies[tag]
	first := l.tagOf[list]
	l.mu.Unlock()
	switch has := slices.Contains(a.tags, tag); {
	case a.Status == 500 || a.Status == 503:
		if !a.IsJSON() {
			return "no JSON"
		}
		return ""
	case a.Status != 200 && a.Status != 304 || a.Err != nil:
		return "no list"
	case !known || a.Status == 200 && a.Body != list || tag != first:
		return tag + " is the ETag of another list: " + short(list)
	case has != (a.Status == 304):
		return "the ETag is " + tag
	}
	for n, e := range l.epochs {
		ended := n+1 < len(l.epochs) && a.Sent.After(l.epochs[n+1].end)
		if !ended && received(a.response).After(e.begin) && body(e.lists, a.world) == list {
			return ""
		}
	}
	return "at no time during the request the database had " + short(list)
}

// long is the description of all events: a list with one of them is compressed.
var long = strings.Repeat("x", 1500)

// short is a list for people.
func short(list string) string { return strings.ReplaceAll(list, long, "…") }
