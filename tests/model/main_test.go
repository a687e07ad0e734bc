// Package model holds the service against a model of worlds, events, RSVPs and users, on SQLite and on PostgreSQL, with
// several clients and two instances. A sequential driver knows the one right response to every request, and shrinks
// what it finds. A concurrent driver, and responses that are read slowly while others write, are judged by what can
// have been true between the request and the response. It goes on while instances are killed and PostgreSQL crashes. A third
// driver watches what slow readers cost.
//
// A run is a few histories of each driver, or as many as the flag -modeltime has time for.
package model

import (
	"flag"
	"net/url"
	"os"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

var modelTime = flag.Duration("modeltime", 0, "how long all drivers together go on")

// The drivers' shares of the time, in percent.
const memoryShare, sequentialShare, concurrentShare, breakingShare = 15, 40, 25, 20

func TestMain(m *testing.M) {
	// Before the flags are parsed, so that the command line has the last word. Each check draws a fresh seed, and files
	// for failed ones would litter the sources.
	flag.Set("rapid.checks", "1")
	flag.Set("rapid.steps", "40")
	flag.Set("rapid.nofailfile", "true")
	os.Exit(servicetest.MainLong(m))
}

// repeat calls history a few times at least, and for a driver's share of the time, until it fails.
func repeat(t *testing.T, few, share int, history func()) {
	end := time.Now().Add(*modelTime * time.Duration(share) / 100)
	n := 0
	for ; !t.Failed() && (n < few || time.Now().Before(end)); n++ {
		history()
	}
	t.Logf("%d histories", n)
}

// both runs test on both databases at once, and waits for both. Drivers run one after the other, for heaps and patience
// are shared.
func both(t *testing.T, test func(t *testing.T, db *servicetest.Database)) {
	for name, open := range map[string]func(testing.TB) *servicetest.Database{"sqlite": servicetest.SQLite, "postgres": servicetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// baseURL is the public address of both instances, as behind a balancer: Link and ETag must not tell them apart.
const baseURL = "https://worlds.example/x%20y"

func behindBalancer(o *servicetest.Options) { o.BaseURL, _ = url.Parse(baseURL) }
