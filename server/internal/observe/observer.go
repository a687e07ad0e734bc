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

// Options of an Observer.
type Options struct {
	// Store is asked whether it is ready, and for its metrics.
	Store *models.Store
	// Log receives a line for each event and each error, AccessLog one for each request, and Audit one for each change that a
	// user makes on a page; nil means Log.
	Log, AccessLog, Audit *slog.Logger
	// LogEvery is how many requests without an error leave one line together; 0 means that none leaves one. Errors always do.
	LogEvery int64
	// LogLinesDropped returns how many lines of the logs were dropped; nil means none ever.
	LogLinesDropped func() int64
	// CertificateExpiry returns when the public listener's certificate expires; nil means that it has none.
	CertificateExpiry func() time.Time
	// TrustedProxies are the networks whose X-Forwarded-For and X-Request-Id are believed.
	TrustedProxies []netip.Prefix
	// AlwaysCounted are the kinds of response that every series counts from 0 on, so that the first of them is an increase.
	AlwaysCounted []Kind
}

// Observer is the one place for logs and metrics. Its methods may be called concurrently.
type Observer struct {
	// Readiness is that of the instance.
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

// New returns an Observer.
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

// Register adds metrics of another package.
func (o *Observer) Register(metrics ...prometheus.Collector) { o.registry.MustRegister(metrics...) }

// failureInterval is how long a state that many requests meet leaves no second line.
const failureInterval = time.Second

// failures are requests that have failed in one state.
type failures struct {
	lines    rate.Sometimes
	unlogged atomic.Int64 // since the last line
}

// LogFailure logs why a request has failed. While the database is away or the like one a second leaves a line, which counts those since
// the line before: it is one storm with one cause.
func (o *Observer) LogFailure(req *Request, err error) {
	f := o.failures[stateOf(err)]
	f.unlogged.Add(1)
	f.lines.Do(func() {
		o.Log.Error("request failed", "request_id", req.ID, "operation", req.Series.ID, "error", err.Error(), "requests", f.unlogged.Swap(0))
	})
}
