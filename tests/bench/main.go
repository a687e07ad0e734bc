// Command bench measures the service and prints tables in Markdown. README.md says how to read them, and has what came out.
//
// A run starts a durable PostgreSQL and seeds one database, of which each server gets a copy (postgres.go, seed.go). What is measured
// are processes (server.go): the service, the same again as a control, other builds, and as a yardstick a server by hand
// (reference.go). table.go has a row for each work: what each connection sends next (calls.go), over how many connections, against
// which reference. load.go keeps a server busy for a round of half a second, and compare.go has the servers take turns. Figures
// that are no rates come from wait.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	quick := flag.Bool("short", false, "shorter rounds, and a tenth of all that is large")
	only := flag.String("only", "", "measure only the rows that match this `regexp`")
	path := flag.String("service", "", "measure this binary of the service instead of building it")
	var others []build
	flag.Func("against", "compare the service with this build, too: `name=path`, as often as it is given", func(value string) error {
		name, path, _ := strings.Cut(value, "=")
		others = append(others, build{name, path})
		return nil
	})
	flag.Parse()
	switch flag.Arg(0) {
	case "serve": // as a process of a run
		serveReference()
	case "call":
		callOrdinarily(flag.Arg(1))
	}
	interrupted, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(interrupted, func() { run.Fatal("interrupted") })
	run.only, run.rounds, run.round, run.scale = regexp.MustCompile(*only), 15, 500*time.Millisecond, 10
	if *quick {
		run.rounds, run.round, run.scale = 5, 300*time.Millisecond, 1
	}
	run.open(*path, others)
	run.table()
	if len(others) == 0 {
		run.long()
		run.watch()
		run.delay()
	}
	run.end()
}

// run is the testing.TB of what servicetest starts. It ends at its first failure.
var run bench

func (b *bench) Helper()                           {}
func (b *bench) Cleanup(f func())                  { b.ends = append(b.ends, f) }
func (b *bench) TempDir() string                   { return must(os.MkdirTemp(b.dir, "")) }
func (b *bench) Fatalf(format string, args ...any) { b.Fatal(fmt.Sprintf(format, args...)) }
func (b *bench) Fatal(args ...any) {
	b.end()
	fmt.Fprintln(os.Stderr, append([]any{"bench:"}, args...)...)
	os.Exit(1)
}

func (b *bench) end() {
	b.ending.Lock() // for good: what fails now does because of this
	for i := len(b.ends) - 1; i >= 0; i-- {
		b.ends[i]()
	}
}

func check(err error) {
	if err != nil {
		run.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
