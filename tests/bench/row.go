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

// row measures the contenders in turns and reports their rates. The first is set against the second.
func (b *bench) row(work, goal string, contenders ...contender) error {
	if !b.only.MatchString(work) {
		return nil
	}
	rates := make([][]float64, len(contenders))
	cpu := make([][]float64, len(contenders)) // microseconds for each request
turns:
	for turn := range b.rounds {
		for i, s := range contenders {
			before := s.server.cpu()
			rate, n, err := s.run(b.round/5, b.round)
			if errors.Is(err, errNoMore) && turn > 0 {
				for i := range rates {
					rates[i] = rates[i][:min(turn, len(rates[i]))]
				}
				break turns
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", work, s.name, err)
			}
			rates[i] = append(rates[i], rate)
			cpu[i] = append(cpu[i], (s.server.cpu()-before).Seconds()*1e6/float64(n))
		}
	}
	r := row{Work: work, Goal: goal}
	for i, s := range contenders {
		r.Sides = append(r.Sides, sideResult{s.name, median(rates[i]), median(cpu[i])})
	}
	var ratios []float64
	for turn := range rates[0] {
		ratios = append(ratios, rates[0][turn]/rates[1][turn])
	}
	r.Ratio, r.Low, r.High = r.Sides[0].Rate/r.Sides[1].Rate, slices.Min(ratios), slices.Max(ratios)
	b.report.Rows = append(b.report.Rows, r)
	b.say("%s", r)
	return nil
}

func median[T int | float64 | time.Duration](values []T) T {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// sameBytes fails unless all servers respond to a request with the same body. It returns the ETag of the first.
func sameBytes(request []byte, servers ...*server) (etag string, err error) {
	var want string
	for i, s := range servers {
		res, body, err := fetch(s.addr, request)
		text := strings.TrimRight(string(body), "\n")
		switch {
		case err != nil:
			return "", err
		case i == 0:
			want, etag = text, res.etag
		case text != want:
			return "", errors.New("different bytes from " + s.name)
		}
	}
	return etag, nil
}
