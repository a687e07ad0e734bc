package server

import (
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"worldevents/models"
	"worldevents/server/internal/backpressure"
)

// metrics are what Prometheus collects. Labels come from the contract and from lists here, never from a request.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	signIns   *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	refreshes *prometheus.CounterVec
	// securityEvents has the events of security.go.
	securityEvents *prometheus.CounterVec
	startFailures  *prometheus.CounterVec
}

func newMetrics(store *models.Store, stalled *backpressure.Class, logLinesDropped func() int64) *metrics {
	if logLinesDropped == nil {
		logLinesDropped = func() int64 { return 0 }
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worldevents_requests_total",
			Help: "Responses, by operation, status and the code of the error that they are, empty for none. Status 499 stands for a client that hung up first.",
		}, []string{"operation", "status", "code"}),
		signIns:       newSignInCounts(),
		startFailures: newStartFailures(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "worldevents_request_duration_seconds",
			Help:    "Time in seconds from a request's headers to the end of its response, by operation, without the time that it waited for news of a list.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"operation"}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worldevents_refreshes_total",
			Help: "Uses of a refresh token, by outcome: refreshed, refused, reused (a spent one after the leeway: the session was revoked), failed.",
		}, []string{"outcome"}),
		securityEvents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worldevents_security_events_total",
			Help: "What happened to sessions, as in the log: signed_in, refused (a sign-in), signed_out, revoked, reused.",
		}, []string{"event"}),
	}
	for _, outcome := range []string{"refreshed", "refused", "reused", "failed"} {
		m.refreshes.WithLabelValues(outcome)
	}
	for _, event := range []string{signedIn, refused, signedOut, revoked, reused} {
		m.securityEvents.WithLabelValues(event)
	}
	m.registry.MustRegister(m.requests, m.duration, m.refreshes, m.securityEvents, m.signIns, m.startFailures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worldevents_waiting_responses",
			Help: "Responses that wait for clients who read slowly.",
		}, func() float64 { return float64(stalled.Stalled()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "worldevents_aborted_responses_total",
			Help: "Responses that were aborted since too many waited for their clients.",
		}, func() float64 { return float64(stalled.Aborted()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "worldevents_log_lines_dropped_total",
			Help: "Lines of the log that were dropped, since it was not read fast enough or could not be written.",
		}, func() float64 { return float64(logLinesDropped()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(store.Timings()...)
	for name, db := range store.Pools() {
		m.registry.MustRegister(collectors.NewDBStatsCollector(db, name))
	}
	if instances := store.Instances(); instances != nil {
		m.registry.MustRegister(newInstanceMetrics(instances)...)
	}
	if wal := store.WAL(); wal != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worldevents_sqlite_wal_bytes",
			Help: "Size of SQLite's write-ahead log.",
		}, func() float64 { return float64(wal.Size()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worldevents_sqlite_checkpoint_blocked_seconds",
			Help: "For how long the log could not be emptied, since another process reads an old state of the database; 0 if it can.",
		}, func() float64 { return wal.Blocked().Seconds() }))
	}
	return m
}

// newInstanceMetrics are about the hints that instances give each other.
func newInstanceMetrics(i *models.Instances) []prometheus.Collector {
	told := func(outcome, help string, count func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "worldevents_hints_" + outcome + "_total", Help: help,
		}, func() float64 { return float64(count()) })
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worldevents_hears_instances",
			Help: "1 while other instances are heard; 0 while what they write is found a second later.",
		}, func() float64 {
			if i.Hears() {
				return 1
			}
			return 0
		}),
		told("sent", "Notifications to other instances that this one has written.", i.Sent),
		told("received", "Notifications of other instances that have written.", i.Received),
	}
}

// registerCertificate registers when the certificate expires, which is the zero time while there is none.
func (m *metrics) registerCertificate(expiry func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worldevents_tls_certificate_expiry_timestamp_seconds",
		Help: "When the certificate of the public listener expires, in seconds since 1970; 0 while there is none.",
	}, func() float64 { return float64(max(0, expiry().Unix())) }))
}

// maxProfile bounds what a profile may take, in seconds.
const maxProfile = 60

// adminHandler responds to the operator: /livez is 200 while the process runs, /readyz while it can serve (the schema is
// up to date, the database responds and takes writes, and no stop has begun), /metrics for Prometheus, /debug/pprof/ for
// go tool pprof. The last two answer hosts alone, of those that are names: a page in the operator's browser could ask under
// a name of its own that leads here. Health checks send any host or none.
func (s *Server) adminHandler(hosts []string) http.Handler {
	mux, inner := http.NewServeMux(), http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := s.ready(r.Context())
		s.logReadiness(err)
		if err != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ok\n"))
	})
	inner.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	inner.HandleFunc("GET /debug/pprof/", pprof.Index)
	inner.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	inner.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch seconds := r.URL.Query().Get("seconds"); {
		case !isOperatorHost(r.Host, hosts):
			http.Error(w, "ADMIN_HOSTS does not have this host", http.StatusMisdirectedRequest)
		case seconds != "" && !isProfileTime(seconds):
			http.Error(w, "seconds must be a number up to "+strconv.Itoa(maxProfile), http.StatusBadRequest)
		default:
			inner.ServeHTTP(w, r)
		}
	})
	return mux
}

// isOperatorHost reports whether a Host header is an IP address, localhost or one of hosts, with any port.
func isOperatorHost(header string, hosts []string) bool {
	host := (&url.URL{Host: header}).Hostname()
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(hosts, func(h string) bool { return h != "" && strings.EqualFold(h, host) })
}

// isProfileTime reports whether a profile may take so many seconds. Pprof takes a fraction for a trace.
func isProfileTime(seconds string) bool {
	n, err := strconv.ParseFloat(seconds, 64)
	return err == nil && n >= 0 && n <= maxProfile
}
