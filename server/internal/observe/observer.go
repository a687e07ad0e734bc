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
	failures rate.Sometimes // for lines while the database is away or the like
	failed   atomic.Int64   // requests since the last line of a failure

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
		failures: rate.Sometimes{Interval: time.Second},
	}
	observer.registerMetrics()
	return observer
}

func (o *Observer) Register(metrics ...prometheus.Collector) { o.registry.MustRegister(metrics...) }

// LogFailure logs a failed request. While the database is away or the like it logs one line a second, with the number of requests.
func (o *Observer) LogFailure(req *Request, err error) {
	o.failed.Add(1)
	line := func() {
		o.Log.Error("request failed", "request_id", req.ID, "operation", req.Series.ID, "error", err.Error(), "requests", o.failed.Swap(0))
	}
	if stateOf(err) == stateFailed { // each may have a cause of its own
		line()
	} else {
		o.failures.Do(line)
	}
}
