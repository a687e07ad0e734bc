package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"worldevents/tests/servicetest"
)

// contender is one of those that a row compares.
type contender struct {
	name   string
	server *server // whose processor time counts; nil for this process
	of     func(n int) (do func())
	beside func(s *server) (end func())
}

// turn is what a contender did in one turn: the rate a second, the processor time of the server and of PostgreSQL in µs for each, and
// the ratio of the first contender's rate to this one.
type turn [4]float64

// compare has contenders take turns, in each round begun by another one, and prints a line for each but the first and its control.
func (b *bench) compare(work string, conns int, contenders []contender) {
	var turns [][]turn // of each round
	for len(turns) < b.rounds {
		these := make([]turn, len(contenders))
		for i := range contenders {
			at := (i + len(turns)) % len(contenders)
			these[at] = b.turn(conns, contenders[at])
		}
		if slices.ContainsFunc(these, func(t turn) bool { return t[0] == 0 }) {
			break // there was not enough to do
		}
		for i := range these {
			these[i][3] = these[0][0] / these[i][0]
		}
		turns = append(turns, these)
	}
	if len(turns) == 0 {
		return
	}
	rates()
	same, median := "", func(i, figure int) float64 { return sorted(turns, i, figure)[len(turns)/2] }
	for i, c := range contenders {
		ratios := sorted(turns, i, 3)
		if low, high := ratios[0], ratios[len(ratios)-1]; c.name == control {
			same = fmt.Sprintf("%.2f (%.2f to %.2f)", median(i, 3), low, high)
		} else if i > 0 {
			fmt.Printf("| %s | %d | %.0f | %.0f | %s | **%.2f** | %.2f to %.2f | %s | %.0f + %.0f | %.0f + %.0f |\n", work, conns, median(0, 0), median(i, 0),
				c.name, median(i, 3), low, high, same, median(0, 1), median(0, 2), median(i, 1), median(i, 2))
		}
	}
}

func (b *bench) turn(conns int, c contender) turn {
	if c.beside != nil {
		defer c.beside(c.server)()
	}
	if c.server != nil { // which has more of the processors than those who ask
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)))
	}
	server, postgres := c.server.cpu(), b.cpu()
	rate, done := load(conns, b.round, c.of)
	each := 1e6 / float64(max(1, done))
	return turn{rate, (c.server.cpu() - server).Seconds() * each, (b.cpu() - postgres).Seconds() * each, 0}
}

// sorted are the values of a figure of one contender.
func sorted(turns [][]turn, contender, figure int) (all []float64) {
	for _, round := range turns {
		all = append(all, round[contender][figure])
	}
	slices.Sort(all)
	return all
}

// figure prints what is no rate.
func figure(work, figure, format string, args ...any) {
	figures()
	fmt.Printf("| %s | %s | %s |\n", work, figure, fmt.Sprintf(format, args...))
}

// A table begins before its first line.
var rates, figures = heading("Work | Connections | Service/s | Against/s | | Ratio | Lowest to highest | " + control + " | CPU µs, service + PostgreSQL | CPU µs, against"),
	heading("Work | Figure | Measured")

func heading(names string) func() {
	return sync.OnceFunc(func() { fmt.Printf("\n| %s |\n|%s---|\n", names, strings.Repeat("---|", strings.Count(names, "|"))) })
}

// same fails unless servers respond to a call with the same body.
func same(call call, contenders []contender) {
	var want string
	for i, one := range contenders {
		c, body := &one.server.clients[0], new(bytes.Buffer)
		c.etag = "" // or the body would be empty
		c.dial(one.server.addr, 64<<10)
		c.do(call(one.server, c), body)
		text := string(bytes.TrimSpace(must(servicetest.Decompress(c.head, body.Bytes()))))
		if i > 0 && text != want {
			run.Fatalf("%s: %.100q instead of %.100q", one.name, text, want)
		}
		want = text
	}
}
