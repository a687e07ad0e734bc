package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"worldevents/config/build"
	"worldevents/models"
	"worldevents/server/internal/metrics"
)

func (o *Observer) registerMetrics() {
	o.registry = prometheus.NewRegistry()
	o.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "worldevents_requests_total",
		Help: "Responses, by operation, status and the code of the error that they are, empty for none. Status 499 stands for a client that hung up first.",
	}, []string{"operation", "status", "code"})
	o.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "worldevents_request_duration_seconds",
		Help:    "Time in seconds from a request's headers to the end of its response, by operation, without the time that it watched a list.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation"})
	o.refreshes = metrics.Counters("worldevents_refreshes_total",
		"Uses of a refresh token, by outcome: refreshed, refused, reused (a spent one after the leeway: the session was revoked), failed.",
		"outcome", RefreshDone, RefreshRefused, RefreshReused, RefreshFailed)
	o.securityEvents = metrics.Counters("worldevents_security_events_total",
		"What happened to sessions, as in the log: signed_in, refused (a sign-in), signed_out, revoked, reused.",
		"event", SignedIn, Refused, SignedOut, Revoked, Reused)
	o.Register(o.requests, o.duration, o.refreshes, o.securityEvents, o.Readiness, o.Readiness.failures,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newBuildInfo())
	o.Register(ofStore(o.Store)...)
	dropped := o.LogLinesDropped
	if dropped == nil {
		dropped = func() int64 { return 0 }
	}
	o.Register(metrics.Counter("worldevents_log_lines_dropped_total",
		"Lines of the log that were dropped, since it was not read fast enough or could not be written.", dropped))
	if o.CertificateExpiry != nil {
		o.Register(metrics.Gauge("worldevents_tls_certificate_expiry_timestamp_seconds",
			"When the certificate of the public listener expires, in seconds since 1970; 0 while there is none.",
			func() int64 { return max(0, o.CertificateExpiry().Unix()) })) // the zero time while there is none
	}
}

// Outcomes of refreshes in metrics.
const (
	RefreshDone    = "refreshed"
	RefreshRefused = "refused"
	RefreshReused  = "reused"
	RefreshFailed  = "failed"
)

// CountRefresh counts the use of a refresh token with its outcome.
func (o *Observer) CountRefresh(outcome string) { o.refreshes.WithLabelValues(outcome).Inc() }

func newBuildInfo() prometheus.Collector {
	this := build.Read()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worldevents_build_info",
		Help: "Always 1. The labels say which build of the program this is.",
		ConstLabels: prometheus.Labels{
			"version": this.Version, "commit": this.Commit, "goversion": this.Go,
		},
	}, func() float64 { return 1 })
}

func ofStore(store *models.Store) []prometheus.Collector {
	all := append(store.Timings(), metrics.Gauge("worldevents_schema_version",
		"Number of the database's schema, which is that of its last migration; 0 until the database has been seen.", store.Schema))
	for name, db := range store.Pools() {
		all = append(all, collectors.NewDBStatsCollector(db, name))
	}
	if others := store.Instances(); others != nil {
		all = append(all,
			metrics.Counter("worldevents_hints_sent_total", "Notifications to other instances that this one has written.", others.Sent),
			metrics.Counter("worldevents_hints_received_total", "Notifications of others, instances or people, that have written.", others.Received))
	}
	if wal := store.WAL(); wal != nil {
		all = append(all,
			metrics.Gauge("worldevents_sqlite_wal_bytes", "Size of SQLite's write-ahead log.", wal.Size),
			metrics.Gauge("worldevents_sqlite_checkpoint_blocked_seconds",
				"For how long the log could not be emptied, since somebody reads an old state of the database; 0 if it can.",
				func() float64 { return wal.Blocked().Seconds() }))
	}
	return all
}

// RegisterHeld registers worldevents_held by label. Package ledger has a table of the bounds.
func (o *Observer) RegisterHeld(held map[string]func() int) {
	for of, n := range held {
		o.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worldevents_held",
			Help: "What requests hold now.", ConstLabels: prometheus.Labels{"of": of},
		}, func() float64 { return float64(n()) }))
	}
}
