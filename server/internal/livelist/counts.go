package livelist

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/server/internal/metrics"
)

// outcome is a label of metrics: why a watch ended.
type outcome string

const (
	changed outcome = "changed"
	elapsed outcome = "elapsed"
	full    outcome = "full"
	stopped outcome = "stopped"
	revoked outcome = "revoked"
	gone    outcome = "gone"
)

type counts struct {
	watching atomic.Int64
	outcomes *prometheus.CounterVec
	lag      prometheus.Histogram
}

func newCounts() *counts {
	return &counts{
		outcomes: metrics.Counters("worldevents_list_watches_total",
			"Requests to watch a list, by why that was over: changed, elapsed, full (too many watch), stopped (the instance stops), revoked (the session, or a yes of the world's owner), gone (the client).",
			"outcome", changed, elapsed, full, stopped, revoked, gone),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "worldevents_list_watch_lag_seconds",
			Help:    "Time from a write of this instance to the end of a response that watched for it.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
}

func (c *counts) count(why outcome) { c.outcomes.WithLabelValues(string(why)).Inc() }

// observeLag observes the delay of a write of this instance; written is zero for others.
func (c *counts) observeLag(written time.Time) {
	if !written.IsZero() {
		c.lag.Observe(time.Since(written).Seconds())
	}
}

// Collectors are the metrics.
func (l *Lists) Collectors() []prometheus.Collector {
	watching := metrics.Gauge("worldevents_list_watches", "Requests that watch a list.", l.counts.watching.Load)
	return []prometheus.Collector{watching, l.counts.outcomes, l.counts.lag}
}
