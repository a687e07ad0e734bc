package observe

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/models"
	"worldevents/server/internal/metrics"
)

// Readiness decides whether requests should be sent to this instance. It is a metric, too. Its methods may be called concurrently.
type Readiness struct {
	store    *models.Store
	log      *slog.Logger
	migrated atomic.Bool
	draining atomic.Bool
	started  chan struct{} // closed once migrated is true, or the service stops
	endStart sync.Once
	logged   atomic.Value          // the state that was logged last, a string
	failure  atomic.Pointer[error] // of the start; nil until there is one
	failures *prometheus.CounterVec
}

func newReadiness(store *models.Store, log *slog.Logger) *Readiness {
	return &Readiness{store: store, log: log, started: make(chan struct{}), failures: metrics.Counters("worldevents_start_failures_total",
		"Failed attempts of the start to bring the schema up to date, by the state of the database, as in worldevents_readiness. Each is followed by another.",
		"state", "unavailable", "timeout", "busy")}
}

// Ready means that the schema is up to date.
func (r *Readiness) Ready() {
	r.migrated.Store(true)
	r.endStart.Do(func() { close(r.started) })
}

// Drain means that the instance stops.
func (r *Readiness) Drain() {
	r.draining.Store(true)
	r.endStart.Do(func() { close(r.started) })
}

func (r *Readiness) IsMigrated() bool { return r.migrated.Load() }

func (r *Readiness) IsDraining() bool { return r.draining.Load() }

// Started is closed at Ready or Drain.
func (r *Readiness) Started() <-chan struct{} { return r.started }

var (
	errStillStarting = errors.New("starting")
	errStopping      = errors.New("stopping")
)

// check returns why the instance is not ready, or nil.
func (r *Readiness) check(ctx context.Context) error {
	switch {
	case r.IsDraining():
		return errStopping
	case !r.IsMigrated():
		if failure := r.failure.Load(); failure != nil {
			return *failure
		}
		return errStillStarting
	}
	return r.store.Ready(ctx)
}

// StartFailed records a failed attempt to bring the schema up to date, before Ready. It may be called again.
func (r *Readiness) StartFailed(err error) {
	r.failure.Store(&err)
	r.failures.WithLabelValues(stateOf(err)).Inc()
	r.logChange(err)
}

// logChange logs each change of readiness once, since probes come every second. A start is no news.
func (r *Readiness) logChange(err error) {
	state := stateOf(err)
	switch before, _ := r.logged.Swap(state).(string); {
	case state == before, before == "" && (err == nil || state == "starting"):
	case err == nil:
		r.log.Info("ready again")
	default:
		r.log.Warn("not ready", "state", state, "error", err.Error())
	}
}

// states are the labels of not being ready. The first match counts.
var states = []struct {
	err  error
	name string
}{
	{errStillStarting, "starting"},
	{errStopping, "stopping"},
	{models.ErrUnwritable, "unwritable"},
	{models.ErrUnavailable, "unavailable"},
	{models.ErrTimeout, "timeout"},
	{models.ErrBusy, "busy"},
}

const (
	stateReady  = "ready"
	stateFailed = "failed"
)

func stateOf(err error) string {
	if err == nil {
		return stateReady
	}
	for _, state := range states {
		if errors.Is(err, state.err) {
			return state.name
		}
	}
	return stateFailed
}

var readinessDesc = prometheus.NewDesc("worldevents_readiness",
	"1 for the state that /readyz is of now, else 0: ready, starting, stopping, or what the database is: unwritable, unavailable, timeout (silent), busy, failed (anything else).",
	[]string{"state"}, nil)

// Describe implements prometheus.Collector.
func (*Readiness) Describe(descs chan<- *prometheus.Desc) { descs <- readinessDesc }

// Collect implements prometheus.Collector. It checks readiness each time, for instances that nobody probes.
func (r *Readiness) Collect(metrics chan<- prometheus.Metric) {
	err := r.check(context.Background()) // takes a second at most
	r.logChange(err)
	now := stateOf(err)
	send := func(name string) {
		value := 0.0
		if name == now {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(readinessDesc, prometheus.GaugeValue, value, name)
	}
	send(stateReady)
	send(stateFailed)
	for _, state := range states {
		send(state.name)
	}
}
