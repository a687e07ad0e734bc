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

// counts are for metrics. Each is there by its name and, for one more version, by its former name.
type counts struct {
	watching atomic.Int64
	outcomes []*prometheus.CounterVec
	lags     []prometheus.Histogram
}

func newCounts() *counts {
	return &counts{
		outcomes: []*prometheus.CounterVec{
			newOutcomes("worldevents_list_watches_total", "Requests to watch a list, by why that was over: changed, elapsed, full (too many watch), stopped (the instance stops), revoked (the session), gone (the client), interrupted (the client sent something)."),
			newOutcomes("worldevents_list_waits_total", "Former name of worldevents_list_watches_total, for one more version."),
		},
		lags: []prometheus.Histogram{
			newLag("worldevents_list_watch_lag_seconds", "Time from a write of this instance to the end of a response that watched for it."),
			newLag("worldevents_list_wait_lag_seconds", "Former name of worldevents_list_watch_lag_seconds, for one more version."),
		},
	}
}

func newOutcomes(name, help string) *prometheus.CounterVec {
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"outcome"})
	for _, why := range []outcome{changed, elapsed, full, stopped, revoked, gone, interrupted} {
		outcomes.WithLabelValues(string(why))
	}
	return outcomes
}

func newLag(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}})
}

func (c *counts) count(why outcome) {
	for _, outcomes := range c.outcomes {
		outcomes.WithLabelValues(string(why)).Inc()
	}
}

// observeLag counts how late a watcher has a write of this instance; the zero time is that of another.
func (c *counts) observeLag(written time.Time) {
	if written.IsZero() {
		return
	}
	for _, lag := range c.lags {
		lag.Observe(time.Since(written).Seconds())
	}
}

// Collectors are the metrics.
func (l *Lists) Collectors() (all []prometheus.Collector) {
	for _, gauge := range []struct{ name, help string }{
		{"worldevents_list_watches", "Requests that watch a list."},
		{"worldevents_list_waits", "Former name of worldevents_list_watches, for one more version."},
	} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help},
			func() float64 { return float64(l.counts.watching.Load()) }))
	}
	for i := range l.counts.outcomes {
		all = append(all, l.counts.outcomes[i], l.counts.lags[i])
	}
	return all
}
