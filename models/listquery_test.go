package models

import (
	"strings"
	"testing"
	"time"
)

// Each query of a list is kept under a number of its own, and is the one that was asked for, whatever was asked for before.
func TestListQueries(t *testing.T) {
	postgres, err := postgresDialect("postgres://localhost/w", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []dialect{sqliteDialect(newDatabaseFile("unused.db"), time.Second), postgres} {
		d.usernames = "usernames"
		var all []listQuery
		for p := range projections {
			for bits := range 1 << 6 {
				has := func(bit int) bool { return bits>>bit&1 == 1 }
				all = append(all, listQuery{p, has(0), has(1), has(2), has(3), has(4), has(5)})
			}
		}
		var known listQueries
		seen := make(map[string]listQuery)
		for range 2 {
			for _, q := range all {
				want, marks := q.sql(d), strings.Count(q.sql(d), "?")
				if d.name == "postgres" {
					want = numbered(want)
				}
				got := known.text(q, d)
				if other, ok := seen[got]; got != want || ok && other != q {
					t.Fatalf("%s, %+v: %s, want %s", d.name, q, got, want)
				}
				seen[got] = q
				if d.name == "postgres" && strings.Count(got, "$") != marks {
					t.Fatalf("%+v: %s, want %d parameters", q, got, marks)
				}
			}
		}
	}
}
