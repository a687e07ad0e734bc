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
		store := &Store{dialect: d}
		for bits := range 1 << 3 {
			o := ListOptions{WorldID: "w"}
			for bit, set := range []func(){func() { o.From = at.ScheduledAt }, func() { o.To = at.ScheduledAt }, func() { o.After = at }} {
				if bits>>bit&1 == 1 {
					set()
				}
			}
			for _, caller := range []Caller{{}, {UserID: ID{1}}, {ID{1}, ID{2}}} {
				query, args := store.listQuery(store.dialect.moments.now, o, caller)
				if strings.Count(query, "?") != len(args) || seen[query] {
					t.Errorf("%s: %s with %v", name, query, args)
				}
				seen[query] = true
			}
		}
	}
}
