package model

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// begun makes moments of the monotonic clock look like wall time, so that they compare to what rows are dated.
var begun = time.Now()

// now is a moment, in nanoseconds.
func now() int64 { return begun.UnixNano() + int64(time.Since(begun)) }

const never = math.MaxInt64

// life is when something is true. Whoever makes it true asks at from and knows at fromBy; in between it may be either.
// The end is the same.
type life struct{ from, fromBy, until, untilBy int64 }

func unborn(from int64) life { return life{from, never, never, never} }

// throughout reports whether it was true at every moment between call and ret.
func (l life) throughout(call, ret int64) bool { return l.fromBy < call && l.until > ret }

// possibly reports whether it may have been true at some moment between call and ret.
func (l life) possibly(call, ret int64) bool { return l.from <= ret && l.untilBy >= call }

// alive reports whether it is true now, when nothing is under way.
func (l life) alive() bool { return l.until == never }

// know says that it is true by now, unless a response has shown that before.
func (l *life) know() { l.fromBy = min(l.fromBy, now()) }

// user has one name at a time. A name is never given to a second user.
type user struct {
	id     string
	number int64 // of those who only fill events, below zero; 0 for all others, whom the service numbers
	life   life
	names  []naming
	token  string // empty for those who only fill events
}

type naming struct {
	name string
	life life
}

func (u *user) name() string { return u.names[len(u.names)-1].name }

// event is an event. The id is empty until somebody has been told.
type event struct {
	world             *world
	id                string
	name, description string
	at                int64 // milliseconds
	life              life
	rsvps             map[*user][]*rsvp
	retried           bool // its maker may send the same again, which would make another one if this were removed

	json string // empty when it must be made anew
}

// rsvp is one time that a user takes part. The moment of joining is between low and high.
type rsvp struct {
	user      *user
	life      life
	low, high int64
}

// joined is the user's last RSVP, if it has not ended.
func (e *event) joined(u *user) *rsvp {
	all := e.rsvps[u]
	if len(all) == 0 || !all[len(all)-1].life.alive() {
		return nil
	}
	return all[len(all)-1]
}

// part begins the end of the user's RSVP, and returns it; nil if there is none.
func (e *event) part(u *user) *rsvp {
	r := e.joined(u)
	if r != nil {
		r.life.until = now()
		e.json = ""
	}
	return r
}

// members are those who take part now, in the order of the list.
func (e *event) members() (members []*rsvp) {
	for u := range e.rsvps {
		if r := e.joined(u); r != nil {
			members = append(members, r)
		}
	}
	slices.SortFunc(members, func(a, b *rsvp) int {
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.user.number, b.user.number))
	})
	return members
}

// place is where an event stands in the list.
type place struct {
	at int64
	id string
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.at, other.at), strings.Compare(p.id, other.id))
}

func (e *event) place() place { return place{e.at, e.id} }

// world is all events that a world has or had, in the order of their making.
type world struct {
	known  *state
	name   string
	events []*event
	byName map[string]*event
	log    []string
}

// state is all that is known. Whoever shares it between goroutines holds the mutex.
type state struct {
	sync.Mutex
	worlds []*world
	users  []*user
	byName map[string]*user
}

func newState() *state { return &state{byName: make(map[string]*user)} }

// locked runs f with the mutex held.
func (s *state) locked(f func()) {
	s.Lock()
	defer s.Unlock()
	f()
}

func (s *state) addWorld(name string) *world {
	w := &world{known: s, name: name, byName: make(map[string]*event)}
	s.worlds = append(s.worlds, w)
	return w
}

func (s *state) addUser(id, name, token string) *user {
	u := &user{id: id, token: token, life: life{0, 0, never, never}}
	u.names = []naming{{name, u.life}}
	s.users = append(s.users, u)
	s.byName[name] = u
	return u
}

// addEvent expects an event, whose name nothing else has.
func (w *world) addEvent(id, name, description string, at int64, l life) *event {
	e := &event{world: w, id: id, name: name, description: description, at: at, life: l, rsvps: make(map[*user][]*rsvp)}
	w.events = append(w.events, e)
	w.byName[name] = e
	return e
}

// join expects an RSVP, unless there is one.
func (e *event) join(u *user, from, low, high int64) *rsvp {
	if e.joined(u) != nil {
		return nil
	}
	r := &rsvp{user: u, life: unborn(from), low: low, high: high}
	e.rsvps[u] = append(e.rsvps[u], r)
	e.json = ""
	return r
}

// rename expects a new name.
func (s *state) rename(u *user, name string, call, ret int64) {
	last := &u.names[len(u.names)-1].life
	last.until, last.untilBy = call, ret
	u.names = append(u.names, naming{name, life{call, ret, never, never}})
	s.byName[name] = u
	s.forget(u)
}

// forget makes the text of the user's events anew.
func (s *state) forget(u *user) {
	for _, w := range s.worlds {
		for _, e := range w.events {
			if e.json != "" && len(e.rsvps[u]) > 0 {
				e.json = ""
			}
		}
	}
}

// end expects that what is alive ends between call and ret.
func (l *life) end(call, ret int64) {
	if l.until == never {
		l.until, l.untilBy = call, ret
	}
}

// remove expects that an event and its RSVPs go.
func (e *event) remove(call, ret int64) {
	e.life.end(call, ret)
	for _, all := range e.rsvps {
		all[len(all)-1].life.end(call, ret)
	}
}

// removeUser expects that a user and all RSVPs go.
func (s *state) removeUser(u *user, call, ret int64) {
	u.life.end(call, ret)
	u.names[len(u.names)-1].life.end(call, ret)
	for _, w := range s.worlds {
		for _, e := range w.events {
			if all := e.rsvps[u]; len(all) > 0 {
				all[len(all)-1].life.end(call, ret)
				e.json = ""
			}
		}
	}
}
