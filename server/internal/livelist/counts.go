package livelist

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is why a watch was over, as it is called in metrics.
type outcome string

const (
	changed     outcome = "changed"
	elapsed     outcome = "elapsed"
	full        outcome = "full"
	stopped     outcome = "stopped"
	revoked     outcome = "revoked"
	gone        outcome = "gone"
	interrupted outcome = "interrupted"
)

// counts are for metrics.
type counts struct {
	watching atomic.Int64
	outcomes *prometheus.CounterVec
	lag      prometheus.Histogram
}

func newCounts() *counts {
	c := &counts{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worldevents_list_waits_total",
			Help: "Requests that wanted to wait for news of a list, by why their wait was over: changed, elapsed, full (too many wait), stopped (the instance stops), revoked (the session), gone (the client), interrupted (the client sent something).",
		}, []string{"outcome"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "worldevents_list_wait_lag_seconds",
			Help:    "Time from a write of this instance to the end of a response that waited for it.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	for _, why := range []outcome{changed, elapsed, full, stopped, revoked, gone, interrupted} {
		c.outcomes.WithLabelValues(string(why))
	}
	return c
}

func (c *counts) count(why outcome) { c.outcomes.WithLabelValues(string(why)).Inc() }

// observeLag counts how late a watcher has a write of this instance; the zero time is that of another.
func (c *counts) observeLag(written time.Time) {
	if !written.IsZero() {
		c.lag.Observe(time.Since(written).Seconds())
	}
}

// Collectors are the metrics.
func (l *Lists) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.counts.outcomes, l.counts.lag, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worldevents_list_waits",
		Help: "Requests that wait for news of a list.",
	}, func() float64 { return float64(l.counts.watching.Load()) })}
}
