package models

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/models/internal/dberr"
)

// timings are the metrics of a pool, in seconds.
type timings struct {
	pool       string // its name
	wait, work prometheus.Histogram
	waiting    *atomic.Int64          // calls that are queued for a connection
	errors     *prometheus.CounterVec // by class
}

// errorClasses are the errors that concern the database, by their names in metrics. An error counts as the first class that matches, so a
// special one comes before its kind.
var errorClasses = []struct {
	name  string
	class error
}{
	{"busy", ErrBusy},
	{"timeout", ErrTimeout},
	{"unwritable", ErrUnwritable},
	{"unavailable", ErrUnavailable},
	{"repeat", dberr.ErrSerialize},
}

func newTimings(pool string) timings {
	labels := prometheus.Labels{"pool": pool}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: labels,
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		})
	}
	t := timings{
		pool:    pool,
		wait:    histogram("worldevents_database_wait_duration_seconds", "Time in seconds that calls waited for a connection to the database, or for their turn to write, those included that got none."),
		work:    histogram("worldevents_database_duration_seconds", "Time in seconds that calls took once they had a connection."),
		waiting: new(atomic.Int64),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name:        "worldevents_database_errors_total",
			Help:        "Errors of the database, by class: busy (no connection in time, or a lock of another process), timeout, unwritable (the SQLite file), unavailable, repeat (once more: a transaction, as the database asked for it, or a read whose connection was lost), locked (a write could not lock a row in time, and then waited for it by itself).",
			ConstLabels: labels,
		}, []string{"class"}),
	}
	t.errors.WithLabelValues(locked) // so that it is shown before the first error
	for _, c := range errorClasses {
		t.errors.WithLabelValues(c.name)
	}
	return t
}

// collectors returns all metrics of the pool.
func (t timings) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.wait, t.work, t.errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worldevents_database_waiting_calls", Help: "Calls that wait for a connection to the database, or for their turn to write.",
		ConstLabels: prometheus.Labels{"pool": t.pool},
	}, func() float64 { return float64(t.waiting.Load()) })}
}

// observe counts a call that ends now with err, and adds its time to usage. It got its connection at started, zero for never.
func (t timings) observe(begun, started time.Time, err error, usage *Usage) {
	now := time.Now()
	wait, work := now.Sub(begun), time.Duration(0)
	if !started.IsZero() && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrUnreachable) {
		wait, work = started.Sub(begun), now.Sub(started)
		t.work.Observe(work.Seconds())
	}
	t.wait.Observe(wait.Seconds())
	t.countError(err)
	usage.Add(Usage{wait, work})
}

// locked is the class of a write that met a locked row, and goes on.
const locked = "locked"

// countError counts an error that is of a class.
func (t timings) countError(err error) {
	for _, c := range errorClasses {
		if errors.Is(err, c.class) {
			t.errors.WithLabelValues(c.name).Inc()
			return
		}
	}
}

// Usage sums the time of calls. It is for one goroutine at a time.
type Usage struct {
	Wait time.Duration // in the queue for a connection, or for a turn to write to SQLite
	Work time.Duration // after that, with the commit
}

// UsageKey is the context key of a *Usage, to which all calls of a Store with that context add their time.
type UsageKey struct{}

// UsageOf returns the Usage of a context, nil if it has none.
func UsageOf(ctx context.Context) *Usage {
	u, _ := ctx.Value(UsageKey{}).(*Usage)
	return u
}

// Add adds the time of other calls. It does nothing on nil.
func (u *Usage) Add(other Usage) {
	if u != nil {
		u.Wait += other.Wait
		u.Work += other.Work
	}
}
