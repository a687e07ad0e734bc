package observe

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"worldevents/models"
)

// Options of an Observer, as in package server.
type Options struct {
	Store                 *models.Store
	Log, AccessLog, Audit *slog.Logger
	LogEvery              int64
	LogLinesDropped       func() int64
	CertificateExpiry     func() time.Time
	TrustedProxies        []netip.Prefix
	// AlwaysCounted are counted from 0 on in every series, so that the first one is an increase.
	AlwaysCounted []Kind
}

// Observer writes logs and metrics. Its methods may be called concurrently.
type Observer struct {
	Readiness *Readiness

	Options
	unlogged atomic.Int64 // requests without an error, so far
	clientIP func(*http.Request) string
	failures map[string]*failures // by state

	registry       *prometheus.Registry
	requests       *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	refreshes      *prometheus.CounterVec
	securityEvents *prometheus.CounterVec
}

func New(o Options) *Observer {
	o.AccessLog, o.Audit = cmp.Or(o.AccessLog, o.Log), cmp.Or(o.Audit, o.Log)
	observer := &Observer{
		Readiness: newReadiness(o.Store, o.Log), Options: o, clientIP: clientIP(o.TrustedProxies),
		failures: map[string]*failures{stateFailed: {lines: rate.Sometimes{Every: 1}}}, // each may have a cause of its own
	}
	for _, state := range states {
		observer.failures[state.name] = &failures{lines: rate.Sometimes{Interval: failureInterval}}
	}
	observer.registerMetrics()
	return observer
}

func (o *Observer) Register(metrics ...prometheus.Collector) { o.registry.MustRegister(metrics...) }

// failureInterval is the least time between two lines for failures in the same state.
const failureInterval = time.Second

// failures are failed requests in one state.
type failures struct {
	lines    rate.Sometimes
	unlogged atomic.Int64 // since the last line
}

// LogFailure logs a failed request. While the database is away or the like it logs one line a second, with the number of requests.
func (o *Observer) LogFailure(req *Request, err error) {
	f := o.failures[stateOf(err)]
	f.unlogged.Add(1)
	f.lines.Do(func() {
		o.Log.Error("request failed", "request_id", req.ID, "operation", req.Series.ID, "error", err.Error(), "requests", f.unlogged.Swap(0))
	})
}
