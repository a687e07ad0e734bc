package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// contender is one of those that a row compares.
type contender struct {
	name string
	// run keeps it busy for a round and returns the rate a second and the number of all that was done.
	run    func(warmup, round time.Duration) (rate float64, n int, err error)
	server *server // whose CPU time counts; nil for none
}

// calls is a contender that serves requests. It has more of the processors than those who make them.
func calls(name string, s *server, conns int, of func(connection int) requests) contender {
	return contender{name: name, server: s, run: func(warmup, round time.Duration) (float64, int, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)))
		return load(s.addr, conns, warmup, round, of)
	}}
}

// turn is what a contender did in one turn.
type turn struct{ rate, server, postgres float64 }

func (t turn) cpu() float64 { return t.server + t.postgres }

// row measures the contenders in turns, each turn begun by another one, and reports what they did. The first is set against the others.
func (b *bench) row(work, goal string, contenders ...contender) error {
	if !b.only.MatchString(work) {
		return nil
	}
	turns := make([][]turn, len(contenders))
rounds:
	for round := range b.rounds {
		for i := range contenders {
			at := (i + round) % len(contenders)
			t, err := b.turn(contenders[at])
			if errors.Is(err, errNoMore) && round > 0 {
				for i := range turns {
					turns[i] = turns[i][:min(round, len(turns[i]))]
				}
				break rounds
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", work, contenders[at].name, err)
			}
			turns[at] = append(turns[at], t)
		}
	}
	r := row{Work: work, Goal: goal}
	for i, s := range contenders {
		side := sideResult{
			Name: s.name, Rate: medianOf(turns[i], func(t turn) float64 { return t.rate }),
			Server: medianOf(turns[i], func(t turn) float64 { return t.server }), PostgreSQL: medianOf(turns[i], func(t turn) float64 { return t.postgres }),
		}
		if i > 0 {
			var rates, cpu []float64
			for n, t := range turns[i] {
				rates, cpu = append(rates, turns[0][n].rate/t.rate), append(cpu, turns[0][n].cpu()/max(t.cpu(), 1e-9))
			}
			side.Ratio, side.Low, side.High, side.CPURatio = median(rates), slices.Min(rates), slices.Max(rates), median(cpu)
		}
		r.Sides = append(r.Sides, side)
	}
	b.report.Rows = append(b.report.Rows, r)
	b.say("%s", r)
	return nil
}

func (b *bench) turn(s contender) (turn, error) {
	server, postgres := s.server.cpu(), b.databaseCPU()
	rate, n, err := s.run(b.round/5, b.round)
	each := func(spent time.Duration) float64 { return spent.Seconds() * 1e6 / float64(max(1, n)) }
	return turn{rate, each(s.server.cpu() - server), each(b.databaseCPU() - postgres)}, err
}

func median[T int | float64 | time.Duration](values []T) T {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

func medianOf(turns []turn, figure func(turn) float64) float64 {
	var values []float64
	for _, t := range turns {
		values = append(values, figure(t))
	}
	return median(values)
}

// sameBytes fails unless all servers respond to a request with the same body.
func sameBytes(request []byte, servers ...*server) error {
	var want string
	for i, s := range servers {
		_, body, err := fetch(s.addr, request)
		text := strings.TrimRight(string(body), "\n")
		switch {
		case err != nil:
			return err
		case i == 0:
			want = text
		case text != want:
			return errors.New("different bytes from " + s.name)
		}
	}
	return nil
}
