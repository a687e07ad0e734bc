package models

import (
	"strings"
	"testing"
	"time"
)

// Each query of a list has as many parameters as it is given, and is another one than all that ask for something else.
func TestListQueries(t *testing.T) {
	at := Position{time.Unix(1, 0), ID{1}}
	for name, d := range map[string]dialect{"sqlite": sqliteDialect, "postgres": postgresDialect} {
		seen := make(map[string]bool)
		check := func(query string, args []any) {
			if strings.Count(query, "?") != len(args) || seen[query] {
				t.Errorf("%s: %s with %v", name, query, args)
			}
			seen[query] = true
		}
		store := &Store{dialect: d}
		for bits := range 1 << 4 {
			l := store.List(ListOptions{WorldID: "w"})
			for bit, set := range []func(){
				func() { l.options.From = at.ScheduledAt }, func() { l.options.To = at.ScheduledAt }, func() { l.Last = at }, func() { l.until = at },
			} {
				if bits>>bit&1 == 1 {
					set()
				}
			}
			for _, selected := range []projection{eventsOnly, withMoment, positionsOnly} {
				for _, caller := range []Caller{{}, {UserID: ID{1}}, {ID{1}, ID{2}}} {
					check(l.query(selected, caller, 1))
				}
			}
		}
		l := store.List(ListOptions{})
		l.rsvps = rsvpState{}
		check(l.rsvpQuery(1))
	}
}
