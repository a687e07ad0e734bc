// Package hostile attacks the service in thousands of generated ways and checks after each what must hold whatever was sent:
// an honest user beside the attacker is served, and all that the attacker held comes back. It takes minutes and needs HAProxy
// and nginx: make test-hostile.
//
// A cell of the matrix is an operation, the state that the attacked requests are in, a way of being bad, the attacker's accounts,
// the path to the service, and the database. Its name is these six, so that a cell can be repeated:
//
//	make test-hostile HOSTILE='-run TestMatrix -cell listEvents/wait/unsent-length/one/direct/sqlite'
package hostile

import (
	"flag"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

var (
	cellCount = flag.Int("cells", 1500, "how many cells of the matrix to run")
	stopCount = flag.Int("stops", 40, "how many cells to run in which the service is stopped")
	seed      = flag.Uint64("seed", 0, "what shuffles the cells; 0 takes one from the clock")
	cellName  = flag.String("cell", "", "run only cells whose name matches this expression")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() % 1e6)
	}
	os.Exit(servicetest.MainLong(m))
}

// cell is one attack.
type cell struct {
	operation operation
	state     state
	way       way
	accounts  accounts
	path      string
	database  string
}

func (c cell) String() string {
	return strings.Join([]string{c.operation.name, c.state.name, c.way.name, c.accounts.name, c.path, c.database}, "/")
}

// reachesLists reports whether the requests of the cell wait for a list or are sent one, if they come that far in their state.
func (c cell) reachesLists() bool {
	return c.state.name == "head" || c.state.name == "body" || c.operation.name == "listEvents" && c.accounts.n > 0
}

// accounts are those that the attacker signs in with.
type accounts struct {
	name string
	n    int
}

var allAccounts = []accounts{{"none", 0}, {"one", 1}, {"eight", 8}}

// The paths to the service: without anything between, with TLS by the service itself, and through the proxies with their files in
// deploy/.
const (
	direct  = "direct"
	tlsPath = "tls"
	haproxy = "haproxy"
	nginx   = "nginx"
)

// matrix returns the cells to run, n at most, shuffled. The first of them have every way in every state once, where most is at stake,
// so that a small part of the matrix is a good one.
func matrix(n int, paths []string) []cell {
	var all []cell
	for _, op := range operations {
		for _, st := range states {
			if st.only != "" && st.only != op.name {
				continue
			}
			for _, w := range ways {
				if !slices.Contains(w.states, st.name) {
					continue
				}
				for _, who := range allAccounts {
					for _, path := range paths {
						for _, database := range []string{"sqlite", "postgres"} {
							all = append(all, cell{op, st, w, who, path, database})
						}
					}
				}
			}
		}
	}
	if *cellName != "" {
		wanted := regexp.MustCompile(*cellName)
		all = slices.DeleteFunc(all, func(c cell) bool { return !wanted.MatchString(c.String()) })
	}
	random := rand.New(rand.NewPCG(*seed, 0)) // #nosec G404 -- it chooses what to test
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := make(map[string]bool)
	var first, rest []cell
	for _, c := range all {
		if key := c.state.name + "/" + c.way.name; c.reachesLists() && !seen[key] {
			seen[key] = true
			first = append(first, c)
		} else {
			rest = append(rest, c)
		}
	}
	all = append(first, rest...)
	return all[:min(n, len(all))]
}

// failed reports what was wrong with a cell, and how to run it again.
func failed(t *testing.T, c cell, faults []string) {
	t.Helper()
	if len(faults) > 0 {
		test, _, _ := strings.Cut(t.Name(), "/")
		t.Errorf("%v with -seed %d\n    %s\n    again: make test-hostile HOSTILE='-run %s -cell %v'", c, *seed, strings.Join(faults, "\n    "), test, c)
	}
}
