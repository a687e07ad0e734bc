package model

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// client is one browser of a user.
type client struct {
	*round
	user  *user
	reads bool // and writes nothing
	rand  *rand.Rand
	held  []held
}

// held is a list that the client has been given, to be asked for again.
type held struct {
	world     *world
	reading   reading
	tag, link string
}

func (c *client) run() {
	for c.going() {
		if c.lost() {
			return
		}
		w := some(c.rand, c.worlds)
		what := c.rand.IntN(20)
		if c.reads {
			what = 8 + c.rand.IntN(12)
		}
		switch {
		case what < 2:
			c.create(w)
		case what < 5:
			c.join(w)
		case what < 8:
			c.leave(w)
		case what < 12:
			c.list(w, c.query(), c.rand.IntN(2))
		case what < 16:
			c.again()
		case what < 18:
			c.walk(w)
		case c.breaker == nil: // else it would be cut off
			c.slowly(w)
		}
	}
}

// lost signs in as somebody new when the user is gone. It reports whether that has failed.
func (c *client) lost() bool {
	gone := false
	if c.locked(func() { gone = c.user.life.untilBy != never }); gone {
		u, err := c.signIn(c.state, fmt.Sprintf("user %d", c.serial()))
		if err != nil {
			c.keep(err)
			return true
		}
		c.user = u
	}
	return false
}

// query draws a shape of list.
func (c *client) query() query {
	q := wholeWorld()
	if c.rand.IntN(2) == 0 {
		q.most = some(c.rand, []int{1, 2, 10, 100, 127, 128, 300, 1000})
		q.limit = fmt.Sprint(q.most)
	}
	if c.rand.IntN(4) == 0 {
		q.low = c.at()
		q.from = instant(q.low)
	}
	if c.rand.IntN(4) == 0 {
		q.high = c.at()
		q.to = instant(q.high)
	}
	return q
}

func (c *client) at() int64 { return noon + c.rand.Int64N(20)*1000 }

// event draws an event whose id is known, which may be gone.
func (c *client) event(w *world) *event {
	c.Lock()
	defer c.Unlock()
	if e := some(c.rand, w.events); e != nil && e.id != "" {
		return e
	}
	return nil
}

// gone reports whether a response is what somebody gets who has been removed, or whose event has. Such responses are
// judged here: they say what had been so for sure, or what may have been.
func (c *client) gone(r response, e *event) bool {
	c.requests.Add(1)
	c.Lock()
	defer c.Unlock()
	switch {
	case r.is(401, "invalid_token"):
		if c.user.life.until > r.ret {
			c.keep(findingf("a user who exists is refused: %v", r))
		}
		return true
	case c.user.life.untilBy < r.call:
		c.keep(findingf("a user who is gone gets: %v", r))
	case e == nil:
	case r.is(404, "event_not_found"):
		if e.life.throughout(r.call, r.ret) {
			c.keep(findingf("an event that exists is not found: %v, event %s", r, e.id))
		}
		return true
	case e.life.untilBy < r.call:
		c.keep(findingf("an event that is gone is found: %v, event %s", r, e.id))
	}
	return false
}

func (c *client) create(w *world) {
	name, description := fmt.Sprintf("event %d", c.serial()), strings.Repeat("d", c.rand.IntN(3)*1000)
	key := ""
	if c.breaker != nil {
		key = fmt.Sprintf("key-%d", c.serial())
	}
	var e *event
	var mine *rsvp
	at := c.at()
	c.locked(func() {
		if len(w.events) > 3000 {
			return
		}
		call := now()
		e = w.addEvent("", name, description, at, unborn(call))
		e.retried = key != ""
		mine = e.join(c.user, call, call, never)
	})
	if e == nil {
		return
	}
	r, err := c.site.create(c.user, c.rand.IntN(2), w, name, description, at, key)
	c.locked(func() { e.retried = false })
	c.keep(err)
	if err != nil || c.gone(r, nil) {
		c.locked(func() {
			if key == "" {
				e.remove(r.call, max(r.ret, now()))
			} else { // a try that failed may have made it
				mine.life.end(r.call, max(r.ret, now()))
			}
		})
		return
	}
	if r.status != 200 {
		c.keep(findingf("create: %v", r))
	}
	c.Lock()
	defer c.Unlock()
	w.note(c.user.id, r.call, "create %s %q", r.header.Get("Event-Id"), name)
	if id := r.header.Get("Event-Id"); e.id != "" && e.id != id {
		c.keep(findingf("an event was listed by another id: %s, %s", e.id, id))
	} else {
		e.id = id
	}
	e.life.know()
	mine.life.know()
	mine.high = r.ret
}

func (c *client) join(w *world) {
	e := c.event(w)
	if e == nil {
		return
	}
	var mine *rsvp
	c.locked(func() {
		call := now()
		mine = e.join(c.user, call, call, never)
	})
	r, err := c.site.join(c.user, c.rand.IntN(2), e.id)
	c.keep(err)
	if err != nil || c.gone(r, e) {
		if mine != nil {
			c.locked(func() { mine.life.end(r.call, max(r.ret, now())) })
		}
		return
	}
	if r.status != 200 {
		c.keep(findingf("join: %v", r))
	}
	c.Lock()
	defer c.Unlock()
	w.note(c.user.id, r.call, "join %s: %v", e.id, mine != nil)
	if mine != nil {
		mine.life.know()
		mine.high = r.ret
	}
}

func (c *client) leave(w *world) {
	e := c.event(w)
	if e == nil {
		return
	}
	var mine *rsvp
	c.locked(func() {
		if mine = e.joined(c.user); mine != nil {
			mine.life.until = now()
		}
	})
	r, err := c.site.leave(c.user, c.rand.IntN(2), e.id)
	c.keep(err)
	if err == nil && !c.gone(r, e) && r.status != 200 {
		c.keep(findingf("leave: %v", r))
	}
	c.Lock()
	defer c.Unlock()
	w.note(c.user.id, r.call, "leave %s: %v", e.id, mine != nil)
	if mine != nil {
		mine.life.untilBy = min(mine.life.untilBy, now())
	}
}
