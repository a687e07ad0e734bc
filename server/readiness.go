package server

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"worldevents/models"
)

var (
	errStillStarting = errors.New("starting")
	errStopping      = errors.New("stopping")
)

// ready returns why requests should not be sent here, nil if they should.
func (s *Server) ready(ctx context.Context) error {
	switch {
	case s.draining.Load():
		return errStopping
	case !s.migrated.Load():
		if err, _ := s.startFailure.Load().(startFailure); err.error != nil {
			return err
		}
		return errStillStarting
	}
	return s.store.Ready(ctx)
}

// startFailure is why the last try to start has failed.
type startFailure struct{ error }

// Unwrap has errors.Is see the cause.
func (f startFailure) Unwrap() error { return f.error }

// StartFailed notes that a try to bring the schema up to date has failed, which comes before Ready. It may be called again.
func (s *Server) StartFailed(err error) {
	s.startFailure.Store(startFailure{err})
	s.metrics.startFailures.WithLabelValues(stateOf(err)).Inc()
	s.logReadiness(err)
}

// logReadiness logs why the instance is not ready, and that it is again, once each: probes come every second. A start is no news.
func (s *Server) logReadiness(err error) {
	state := stateOf(err)
	switch before, _ := s.notReady.Swap(state).(string); {
	case state == before, before == "" && (err == nil || state == "starting"):
	case err == nil:
		s.log.Info("ready again")
	default:
		s.log.Warn("not ready", "state", state, "error", err.Error())
	}
}

// states are the causes of not being ready, as metrics call them. The first that fits counts.
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

// stateOf is ready without an error, and failed where nothing else fits.
func stateOf(err error) string {
	if err == nil {
		return "ready"
	}
	for _, state := range states {
		if errors.Is(err, state.err) {
			return state.name
		}
	}
	return "failed"
}

// readiness asks, each time that metrics are read, whether the instance is ready: an instance that nobody probes is known, too.
type readiness struct{ s *Server }

var readinessDesc = prometheus.NewDesc("worldevents_readiness",
	"1 for the state that /readyz is of now, else 0: ready, starting, stopping, or what the database is: unwritable, unavailable, timeout (silent), busy, failed (anything else).",
	[]string{"state"}, nil)

// Describe implements prometheus.Collector.
func (readiness) Describe(descs chan<- *prometheus.Desc) { descs <- readinessDesc }

// Collect implements prometheus.Collector.
func (r readiness) Collect(metrics chan<- prometheus.Metric) {
	err := r.s.ready(context.Background()) // which takes a second at most
	r.s.logReadiness(err)
	now := stateOf(err)
	send := func(name string) {
		value := 0.0
		if name == now {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(readinessDesc, prometheus.GaugeValue, value, name)
	}
	send("ready")
	send("failed")
	for _, state := range states {
		send(state.name)
	}
}

func newStartFailures() *prometheus.CounterVec {
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "worldevents_start_failures_total",
		Help: "Tries of the start to bring the schema up to date that have failed, by what the database was, as in worldevents_readiness. Each is followed by another.",
	}, []string{"state"})
	for _, state := range []string{"unavailable", "timeout", "busy"} {
		counts.WithLabelValues(state)
	}
	return counts
}
