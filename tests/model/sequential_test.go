package model

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"worldevents/tests/servicetest"
)

// TestSequential sends one request after the other. What a plain list must be is known to the byte.
func TestSequential(t *testing.T) {
	both(t, func(t *testing.T, db *servicetest.Database) {
		s := newSite(t, db)
		repeat(t, 2, sequentialShare, func() {
			rapid.Check(silent{t}, func(t *rapid.T) { newMachine(t, s).run(t) })
		})
	})
}

// silent does without a line for each check that passes.
type silent struct{ *testing.T }

func (s silent) Logf(format string, args ...any) {
	if !strings.HasPrefix(format, "[rapid] OK") {
		s.T.Helper()
		s.T.Logf(format, args...)
	}
}

// machine is one run: its own world and users, and the responses that they have got.
type machine struct {
	*round
	world   *world
	clients []*client
	crowd   []*user
	large   bool // whether there are bulks
	streams []*stream
	walks   []*walk
	// Each ETag stands for one list, and each list has one ETag. All of them have been seen.
	shown map[string]identity
	tags  map[identity]string
	seen  []seen
	keyed []keyed
}

// seen is a list that has been asked for.
type seen struct {
	query query
	tag   string // empty without ETag
}

func newMachine(t *rapid.T, s *site) *machine {
	if err := s.wipe(); err != nil {
		t.Fatal(err)
	}
	n := s.serial()
	m := &machine{round: &round{site: s, state: newState()}, shown: make(map[string]identity), tags: make(map[identity]string)}
	m.world = m.addWorld(fmt.Sprintf("world %d/é", n))
	for i := range 3 {
		u, err := s.signIn(m.state, fmt.Sprintf("user %d \"%d\"", n, i))
		if err != nil {
			t.Fatal(err)
		}
		m.clients = append(m.clients, &client{round: m.round, user: u})
	}
	return m
}

// run draws commands and does them.
func (m *machine) run(t *rapid.T) {
	defer func() {
		for _, s := range m.streams {
			s.close()
		}
	}()
	actions := map[string]func(*rapid.T){
		"create": m.createOne, "create huge": m.createHuge, "repeat": m.repeatOne,
		"join": func(t *rapid.T) { m.client(t).join(m.world) }, "join another": func(t *rapid.T) { m.client(t).join(m.world) },
		"leave": func(t *rapid.T) { m.client(t).leave(m.world) }, "leave and join": m.rejoin,
		"rename": func(t *rapid.T) { m.operator(t).rename(m.world) }, "remove user": m.removeOneUser,
		"remove event": func(t *rapid.T) { m.operator(t).removeEvent(m.world) },
		"edit event":   m.edit, "list": m.listAny, "list again": m.listAgain, "poll": m.poll, "walk at once": m.walkAtOnce,
		"walk begins": m.walkBegins, "walk goes on": m.walkGoesOn,
	}
	if m.large = rapid.Bool().Draw(t, "large"); m.large {
		for name, action := range map[string]func(*rapid.T){
			"bulk": m.bulk, "bulk in a gap": m.bulkInGap, "fill": m.fillOne, "fill all": m.fillAll, "open": m.openStream, "open page": m.openPage,
			"read some": m.readSome, "read some more": m.readSome, "read the rest": m.readRest, "cut": m.cut,
			"crowded stream": m.crowdedStream, "page with a gap": m.pageWithGap,
		} {
			actions[name] = action
		}
		m.guarded(m.begin)(t)
		starts := []func(*rapid.T){m.crowdedStream, m.pageWithGap, m.bulk, m.fillAll}
		m.guarded(starts[rapid.IntRange(0, len(starts)-1).Draw(t, "start")])(t)
	}
	for name, action := range actions {
		actions[name] = m.guarded(action)
	}
	actions[""] = m.report
	t.Repeat(actions)
	m.guarded(m.repeatInAllWays)(t) // which few histories happen to do
	m.guarded(func(t *rapid.T) {
		for len(m.streams) > 0 {
			m.finish(t, 0)
		}
		m.check(t, wholeWorld(), "")
	})(t)
	m.report(t)
}

// guarded is an action whose finding is kept until report. rapid shrinks only to what fails in the same way, at the same
// place and with the same words.
func (m *machine) guarded(action func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		defer func() {
			switch fault := recover().(type) {
			case nil:
			case *finding:
				m.keep(fault)
			case error:
				panic(fmt.Sprintf("%v\n%s", fault, debug.Stack()))
			default:
				panic(fault)
			}
		}()
		if m.found.Load() == nil {
			action(t)
		}
	}
}

// report fails the run if something has been found.
func (m *machine) report(t *rapid.T) {
	if found := m.found.Load(); found != nil {
		t.Log(found.text)
		t.Fatal(found.kind)
	}
}

// ok fails the run on an error.
func ok(err error) {
	if err != nil {
		panic(findingOf(err))
	}
}

func fail(format string, args ...any) { panic(findingf(format, args...)) }

// success fails the run unless a write succeeded as it must.
func success(r response, err error) {
	ok(err)
	if r.status != 200 || r.body != servicetest.Success {
		fail("a write: %v", r)
	}
}

func (m *machine) instance(t *rapid.T) int { return rapid.IntRange(0, 1).Draw(t, "instance") }

func drawing(t *rapid.T) draw {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
}

// client is somebody with a session who exists.
func (m *machine) client(t *rapid.T) *client {
	c := m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
	c.draw = drawing(t)
	return c
}

func (m *machine) user(t *rapid.T) *user { return m.client(t).user }

func (m *machine) operator(t *rapid.T) *operator {
	return &operator{round: m.round, draw: drawing(t), crowd: m.crowd}
}

// event is any event that is there.
func (m *machine) event(t *rapid.T) *event {
	var alive []*event
	for _, e := range m.world.events {
		if e.life.alive() {
			alive = append(alive, e)
		}
	}
	if len(alive) == 0 {
		t.Skip("no event")
	}
	return alive[rapid.IntRange(0, len(alive)-1).Draw(t, "event")]
}
