package models

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// timings are the metrics of a pool, in seconds.
type timings struct{ wait, work prometheus.Histogram }

func newTimings(pool string) timings {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{"pool": pool},
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		})
	}
	return timings{
		wait: histogram("worldevents_database_wait_duration_seconds", "Time that calls waited for a connection to the database, those included that got none."),
		work: histogram("worldevents_database_duration_seconds", "Time that calls took once they had a connection."),
	}
}

func (t timings) collectors() []prometheus.Collector { return []prometheus.Collector{t.wait, t.work} }

// observe counts a call that has ended now with err, and that had its connection since started; never, if that is zero.
func (t timings) observe(begun, started time.Time, err error) {
	if started.IsZero() || err != nil && errors.Is(err, ErrBusy) {
		t.wait.Observe(time.Since(begun).Seconds())
		return
	}
	t.wait.Observe(started.Sub(begun).Seconds())
	t.work.Observe(time.Since(started).Seconds())
}
