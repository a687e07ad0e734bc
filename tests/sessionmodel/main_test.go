// Package sessionmodel holds sessions against a model, on SQLite and on PostgreSQL: random histories of sign-ins,
// refreshes, sign-outs and event operations of two users, in which anybody may send any token that was ever issued, at
// any time, to either of two instances. On PostgreSQL the instances' clocks may be 50 s apart, and the database has a clock of
// its own. What is found is shrunk to a short history.
//
// Each database sees a few histories, or as many as the flag -rapid.checks says.
package sessionmodel

import (
	"flag"
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) {
	// Before the flags are parsed, so that the command line has the last word. Files for failed histories would litter the
	// sources.
	flag.Set("rapid.checks", "50")
	flag.Set("rapid.steps", "25")
	flag.Set("rapid.nofailfile", "true")
	os.Exit(servicetest.MainLong(m))
}
