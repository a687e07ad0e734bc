package model

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// listing is a list as a client reads it.
type listing struct {
	Events []struct {
		ID, Name, Description, ScheduledAt string
		RSVPs                              []struct{ User struct{ Username string } }
	}
}

// reading is a list that was asked for at call and read to its end at ret.
type reading struct {
	listing
	query     query
	call, ret int64
	more      bool // Link was there
	whole     bool // ETag was there: the list was read at one moment
}

func newReading(q query, r response) (reading, error) {
	list := reading{query: q, call: r.call, ret: r.ret, more: r.header.Get("Link") != "", whole: r.header.Get("ETag") != ""}
	return list, json.Unmarshal([]byte(r.body), &list.listing)
}

// judge says what is wrong with a list, given all that may have been true while it was read. What it shows to have
// begun, or to have ended, is known from then on.
func (w *world) judge(list reading) error {
	events, err := w.found(list)
	if err != nil {
		return err
	}
	for i, e := range events {
		names := make([]string, len(list.Events[i].RSVPs))
		for j, r := range list.Events[i].RSVPs {
			names[j] = r.User.Username
		}
		if err := e.judge(names, list); err != nil {
			return findingf("an event's RSVPs: %w, list%s, event %d %s", err, list.query, i, e.id)
		}
	}
	if err := w.missing(list, events); err != nil || !list.whole {
		return err
	}
	return w.moment(list, events)
}

// found finds the events of a list, and faults in what stands there.
func (w *world) found(list reading) ([]*event, error) {
	events := make([]*event, len(list.Events))
	if list.query.most > 0 && len(events) > list.query.most {
		return nil, findingf("%d events are more than the limit %d", len(events), list.query.most)
	}
	for i, got := range list.Events {
		e := w.byName[got.Name]
		if e == nil {
			return nil, findingf("event %d %s never existed: %.200q", i, got.ID, got.Name)
		}
		if e.id == "" {
			e.id = got.ID // its maker has not been told yet
		}
		switch {
		case got.ID != e.id || got.Description != e.description || got.ScheduledAt != instant(e.at):
			return nil, findingf("event %d %s is not as it was made: %.200q", i, got.ID, got.Name)
		case !e.life.possibly(list.call, list.ret):
			return nil, findingf("event %d %s was not there at any moment", i, e.id)
		case !list.query.covers(e):
			return nil, findingf("event %d %s is out of range", i, e.id)
		case i > 0 && events[i-1].place().compare(e.place()) >= 0:
			return nil, findingf("events %d and %d, %s and %s, are out of order", i-1, i, events[i-1].id, e.id)
		}
		e.life.fromBy = min(e.life.fromBy, list.ret)
		events[i] = e
	}
	return events, nil
}

// missing finds events that should be in the list: all in range, up to where the next page begins.
func (w *world) missing(list reading, events []*event) error {
	changed := false
	there := make(map[*event]bool, len(events))
	for _, e := range events {
		there[e] = true
		changed = changed || !e.life.throughout(list.call, list.ret)
	}
	for _, e := range w.events {
		if there[e] || !list.query.covers(e) {
			continue
		}
		changed = changed || e.life.possibly(list.call, list.ret)
		if !e.life.throughout(list.call, list.ret) {
			continue
		}
		if !list.more || len(events) > 0 && e.place().compare(events[len(events)-1].place()) < 0 {
			at := slices.IndexFunc(events, func(other *event) bool { return e.place().compare(other.place()) < 0 })
			return findingf("event %s is missing: it stands before %d of %d events, more follow: %v", e.id, at, len(events), list.more)
		}
	}
	if list.more && !changed && len(events) < list.query.most {
		return findingf("a page has %d of %d events, and more follow", len(events), list.query.most)
	}
	return nil
}

// judge says what is wrong with the usernames of an event.
func (e *event) judge(names []string, list reading) error {
	var latest *rsvp // of those who took part throughout, the one who joined last
	there := make(map[*user]string, len(names))
	for i, name := range names {
		u := e.world.known.byName[name]
		if u == nil {
			return findingf("RSVP %d: nobody is called %q", i, name)
		}
		all := e.rsvps[u]
		at := slices.IndexFunc(all, func(r *rsvp) bool { return r.life.possibly(list.call, list.ret) })
		switch {
		case at < 0:
			return findingf("RSVP %d: %q did not take part at any moment", i, name)
		case !u.had(name, list.call, list.ret):
			return findingf("RSVP %d: nobody was called %q at any moment", i, name)
		case there[u] == name, there[u] != "" && !u.renamed(list.call, list.ret):
			return findingf("RSVP %d: %q stands there twice", i, name)
		}
		there[u] = name
		r := all[at]
		if len(all) == at+1 { // else it may be a later one
			r.life.fromBy = min(r.life.fromBy, list.ret)
		}
		if !e.took(r, list) {
			continue
		}
		if latest != nil && r.before(latest) {
			return findingf("RSVP %d: %q joined before %q", i, name, latest.user.name())
		}
		if latest == nil || latest.low < r.low {
			latest = r
		}
	}
	for u, all := range e.rsvps {
		last := slices.IndexFunc(all, func(r *rsvp) bool { return e.took(r, list) })
		if last >= 0 && there[u] == "" {
			return findingf("%q took part throughout and is missing: %d RSVPs", u.name(), len(names))
		}
	}
	return nil
}

// took reports whether an RSVP was there throughout. It goes with its event and its user, too.
func (e *event) took(r *rsvp, list reading) bool {
	return r.life.throughout(list.call, list.ret) && e.life.until > list.ret && r.user.life.until > list.ret
}

// renamed reports whether the user may have had several names.
func (u *user) renamed(call, ret int64) bool {
	return !slices.ContainsFunc(u.names, func(n naming) bool { return n.life.throughout(call, ret) })
}

// had reports whether the user may have had the name at some moment.
func (u *user) had(name string, call, ret int64) bool {
	return slices.ContainsFunc(u.names, func(n naming) bool { return n.name == name && n.life.possibly(call, ret) })
}

// before reports whether r stands before other for sure.
func (r *rsvp) before(other *rsvp) bool {
	if r.low == r.high && other.low == other.high {
		return cmp.Or(cmp.Compare(r.low, other.low), cmp.Compare(r.user.number, other.user.number)) < 0
	}
	const microsecond = int64(time.Microsecond) // what the databases keep
	return r.high < other.low-microsecond
}

// continues says what is wrong with a page, given the page that follows it: whatever is not behind the end of the one must
// be in the other.
func (w *world) continues(list, following reading) error {
	there := make(map[string]bool)
	for _, e := range list.Events {
		there[e.ID] = true
	}
	for _, e := range w.events {
		if !list.query.covers(e) || !e.life.throughout(list.call, following.ret) {
			continue
		}
		before := true
		if len(following.Events) > 0 {
			next := following.Events[0] // whose maker may not have been told its id
			before = e.place().compare(place{w.byName[next.Name].at, next.ID}) < 0
		}
		if before != there[e.id] {
			return findingf("pages do not meet: list%s, event %s is in the page of %d: %v, stands before the next page: %v",
				list.query, e.id, len(list.Events), there[e.id], before)
		}
	}
	return nil
}
