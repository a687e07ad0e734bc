package model

import (
	"fmt"
	"strings"

	"worldevents/tests/servicetest"
)

// client is one browser of a user.
type client struct {
	*round
	user  *user
	reads bool // and writes nothing
	draw  draw
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
		w := some(c.draw, c.worlds)
		what := c.draw(20)
		if c.reads {
			what = 8 + c.draw(12)
		}
		switch {
		case what < 2:
			c.create(w)
		case what < 5:
			c.join(w)
		case what < 8:
			c.leave(w)
		case what < 12:
			c.list(w, c.draw.query(), c.draw(2))
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

// event draws an event whose id is known, which may be gone.
func (c *client) event(w *world) *event {
	c.Lock()
	defer c.Unlock()
	if e := some(c.draw, w.events); e != nil && e.id != "" {
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
	name, description, key := fmt.Sprintf("event %d", c.serial()), strings.Repeat("d", c.draw(3)*1000), ""
	full := false
	if c.locked(func() { full = len(w.events) > 3000 }); full {
		return
	}
	if c.breaker != nil {
		key = fmt.Sprintf("key-%d", c.serial())
	}
	c.createWith(w, name, description, key)
}

// createWith returns the event, or nil when it was refused.
func (c *client) createWith(w *world, name, description, key string) *event {
	var e *event
	var mine *rsvp
	at := c.draw.instant()
	c.locked(func() {
		call := now()
		e = w.addEvent("", name, description, at, unborn(call))
		e.retried = key != ""
		mine = e.join(c.user, call, call, never)
	})
	r, err := c.site.create(c.user, c.draw(2), w, name, description, at, key)
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
		return nil
	}
	c.succeeded(r)
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
	return e
}

// succeeded looks whether a write that was not refused has succeeded.
func (c *client) succeeded(r response) {
	if r.status != 200 || r.body != servicetest.Success {
		c.keep(findingf("a write: %v", r))
	}
}

func (c *client) join(w *world) {
	if e := c.event(w); e != nil {
		c.joinEvent(e)
	}
}

func (c *client) joinEvent(e *event) {
	var mine *rsvp
	c.locked(func() {
		call := now()
		mine = e.join(c.user, call, call, never)
	})
	r, err := c.site.join(c.user, c.draw(2), e.id)
	c.keep(err)
	if err != nil || c.gone(r, e) {
		if mine != nil {
			c.locked(func() { mine.life.end(r.call, max(r.ret, now())) })
		}
		return
	}
	c.succeeded(r)
	c.Lock()
	defer c.Unlock()
	e.world.note(c.user.id, r.call, "join %s: %v", e.id, mine != nil)
	if mine != nil {
		mine.life.know()
		mine.high = r.ret
	}
}

func (c *client) leave(w *world) {
	if e := c.event(w); e != nil {
		c.leaveEvent(e)
	}
}

func (c *client) leaveEvent(e *event) {
	var mine *rsvp
	c.locked(func() { mine = e.part(c.user) })
	r, err := c.site.leave(c.user, c.draw(2), e.id)
	c.keep(err)
	if err == nil && !c.gone(r, e) {
		c.succeeded(r)
	}
	c.Lock()
	defer c.Unlock()
	e.world.note(c.user.id, r.call, "leave %s: %v", e.id, mine != nil)
	if mine != nil {
		mine.life.untilBy = min(mine.life.untilBy, now())
	}
}
