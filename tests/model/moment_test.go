package model

import "slices"

// span is from one moment to another, both included.
type span struct{ from, to int64 }

// fact is what a list shows: it was so at any moment of these.
type fact struct {
	what  string
	spans []span
}

func (f fact) at(moment int64) bool {
	return slices.ContainsFunc(f.spans, func(s span) bool { return s.from <= moment && moment <= s.to })
}

// while is when something may have been true.
func (l life) while() span { return span{l.from, l.untilBy} }

// without is when something may have been untrue.
func (l life) without() []span { return []span{{0, l.fromBy}, {l.until, never}} }

// moment says whether all that a list shows was so at one and the same moment, between call and ret. There is one if and only if one
// is where something began, or call itself.
func (w *world) moment(list reading, events []*event) error {
	facts := w.facts(list, events)
	moments := []int64{list.call}
	for _, f := range facts {
		for _, s := range f.spans {
			if list.call < s.from && s.from <= list.ret {
				moments = append(moments, s.from)
			}
		}
	}
	slices.Sort(moments)
	var untrue []string // at each moment
	for _, m := range slices.Compact(moments) {
		at := slices.IndexFunc(facts, func(f fact) bool { return !f.at(m) })
		if at < 0 {
			return nil
		}
		untrue = append(untrue, facts[at].what)
	}
	return findingf("a list%s shows no moment: %q", list.query, slices.Compact(untrue))
}

// facts is what a list shows of what was not so all the time.
func (w *world) facts(list reading, events []*event) (facts []fact) {
	note := func(what string, spans ...span) {
		if f := (fact{what, spans}); len(spans) != 1 || spans[0].from > list.call || spans[0].to < list.ret {
			facts = append(facts, f)
		}
	}
	there := make(map[*event]bool, len(events))
	for i, e := range events {
		there[e] = true
		note("event "+e.id, e.life.while())
		shown := make(map[*user]bool)
		for _, r := range list.Events[i].RSVPs {
			name := r.User.Username
			u := w.known.byName[name]
			if shown[u] {
				note(name + " twice") // which never was
			}
			shown[u] = true
			note(name+" in "+e.id, spansOf(e.rsvps[u], func(r *rsvp) span { return r.life.while() })...)
			named := slices.DeleteFunc(slices.Clone(u.names), func(n naming) bool { return n.name != name })
			note("the name "+name, spansOf(named, func(n naming) span { return n.life.while() })...)
		}
		for u, all := range e.rsvps {
			if shown[u] {
				continue
			}
			for _, r := range all {
				if r.life.possibly(list.call, list.ret) {
					note(u.name()+" not in "+e.id, r.life.without()...)
				}
			}
		}
	}
	for _, e := range w.events {
		inPage := !list.more || len(events) > 0 && e.place().compare(events[len(events)-1].place()) < 0
		if !there[e] && list.query.covers(e) && inPage && e.life.possibly(list.call, list.ret) {
			note("no event "+e.id, e.life.without()...)
		}
	}
	return facts
}

func spansOf[T any](all []T, of func(T) span) (spans []span) {
	for _, one := range all {
		spans = append(spans, of(one))
	}
	return spans
}
