// Command bench measures the service beside a hand-written reference, on a durable PostgreSQL that it
// starts itself. README.md tells what came out, and how to read it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// settings say how long and how often is measured. Many short rounds in turns see the same of whatever else the machine does.
type settings struct {
	rounds int
	round  time.Duration
	// toJoin and toLeave is how many events there are for each server, by all users each. A row ends when they run out.
	toJoin, toLeave int
	// big is the number of worlds of 1,000 x 100.
	big int
	// elsewhere is the number of events that users join while others list.
	elsewhere int
	// large is the number of RSVPs of the largest world, whose list is nearly as long as one may be.
	large int
	// waiters is how many wait for news of lists at once.
	waiters int
	// crowd is the number of users of the grown database, which has 25 RSVPs for each of them.
	crowd int
}

var (
	full  = settings{rounds: 15, round: 500 * time.Millisecond, toJoin: 500, toLeave: 150, big: 2, elsewhere: 25, large: 900_000, waiters: 10_000, crowd: 200_000}
	short = settings{rounds: 5, round: 300 * time.Millisecond, toJoin: 500, toLeave: 150, big: 1, elsewhere: 3, large: 90_000, waiters: 1000, crowd: 20_000}
)

func main() {
	out := flag.String("o", "", "write the results as JSON to this file")
	quick := flag.Bool("short", false, "a minute instead of several: shorter rounds, smaller worlds")
	only := flag.String("only", "", "measure only the rows that match this regular expression")
	binary := flag.String("service", "", "measure this binary of the service instead of building it")
	var builds []build
	flag.Func("against", "measure against another build, `name=path`, as often as it is given; then only what all builds serve", func(value string) error {
		name, path, ok := strings.Cut(value, "=")
		if !ok || name == "" || path == "" {
			return errors.New("not name=path")
		}
		builds = append(builds, build{name: name, binary: path})
		return nil
	})
	// How this program starts the servers that it brings along.
	calls := flag.String("calls", "", "make ordinary calls there until standard input ends, and say how long they took")
	role := flag.String("serve", "", "be one of the other servers: reference or bare")
	addr := flag.String("addr", "", "listen there")
	database := flag.String("database", "", "PostgreSQL URL")
	flag.Parse()

	var err error
	if *calls != "" {
		err = makeCalls(*calls)
	} else if *role != "" {
		err = serve(*role, *addr, *database)
	} else {
		err = measureAll(*binary, builds, *only, *out, *quick)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureAll(binary string, builds []build, only, out string, quick bool) error {
	// The servers die with the thread that starts them, so this thread must live as long as the run.
	runtime.LockOSThread()
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	b := &bench{settings: full, only: pattern, builds: builds, begin: time.Now()}
	if quick {
		b.settings = short
	}
	b.say("starting PostgreSQL and building the service")
	b.env, err = newEnv(binary)
	defer b.env.close()
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		b.env.close()
		os.Exit(1)
	}()
	b.report.Machine, err = machine(b.env)
	if err != nil {
		return err
	}
	parts := []func() error{b.main, b.eddsa, b.stale, b.grown, b.large, b.sqlite, b.waits}
	if strings.HasPrefix(only, "wait") {
		parts = parts[len(parts)-1:] // the others would fill their databases all the same
	}
	if len(builds) > 0 {
		parts = parts[:1]
	}
	for _, part := range parts {
		if err = part(); err != nil {
			break // what was measured before is not lost
		}
	}
	fmt.Print(b.report.String())
	if out != "" {
		err = errors.Join(err, b.report.write(out))
	}
	return err
}

// bench is one run.
type bench struct {
	settings
	*env
	only   *regexp.Regexp
	builds []build // to measure against
	begin  time.Time
	report report
}

// say shows progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}
