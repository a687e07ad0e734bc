package postgres

import "testing"

func TestSameButCredentials(t *testing.T) {
	t.Setenv("PGUSER", "worldevents")
	t.Setenv("PGDATABASE", "")
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"postgres://u:p@h/d", "postgres://u:p@h/d", true},
		{"postgres://u:p@h/d", "postgres://v:q@h/d", true},
		{"postgres://u:p@h/d", "postgresql://v@h/d", true},
		{"postgres://u:p@h/d", "postgres://h/d?user=v&password=q", true},
		{"postgres://u:p@h/d", "postgres://h/d?pass%77ord=q", true},
		{"postgres://u:p@h/d?sslmode=disable", "postgres://h/d?password=q&sslmode=disable", true},
		{"postgres://u:p@one:1,two:2/d", "postgres://v:q@one:1,two:2/d", true},
		{"postgres://u:p@[::1]:1/d", "postgres://v:q@[::1]:1/d", true},
		{"postgres:///d?host=/run/postgresql", "postgres://v:q@/d?host=/run/postgresql", true},
		{"postgres://u:p@h/worldevents", "postgres://v:q@h/worldevents", true},

		{"postgres://u:p@h/d", "postgres://u:p@i/d", false},
		{"postgres://u:p@h/d", "postgres://u:p@h:5433/d", false},
		{"postgres://u:p@h/d", "postgres://u:p@h/e", false},
		{"postgres://u:p@h/d", "postgres://u:p@h/d?sslmode=disable", false},
		{"postgres://u:p@h/d", "postgres://u:p@h/d?host=i", false},
		{"postgres://u:p@h/d", "postgres://u:p@h/d?passfile=/x", false},
		{"postgres://u:p@one,two/d", "postgres://u:p@two,one/d", false},
		{"postgres://u:p@h", "postgres://v:q@h", false}, // the user names the database
		{"postgres://u:p@h", "postgres://v:q@h/u", false},
		{"postgres://u:p@h/d", "postgres://u:p@h/d?sslmode=nonsense", false},
		{"postgres://u:p@h/d", "sqlite:d", false},
		{"postgres://u:p@h/d", "", false},
		{"postgres://u:p@h/d", "host=h dbname=d user=v", false},
		{"postgres://", "host=i", false},
	} {
		if got := sameButCredentials(test.a, test.b); got != test.want {
			t.Errorf("%s and %s: %v", test.a, test.b, got)
		}
	}
}
