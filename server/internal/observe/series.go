package observe

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Series is an operation, a page, or a fallback, under which requests are counted and logged. It prepares the common parts.
type Series struct {
	// ID is the operationId, or a similar name.
	ID string

	method   string // "" for any
	log      slog.Handler
	duration prometheus.Observer
	requests *prometheus.CounterVec // by status and code
}

// Kind identifies responses in metrics: by the status, and the code of an error or "".
type Kind struct {
	Status int
	Code   string
}

// ClientGone is the code of a request whose client hung up before the response. Like proxies the service counts it with the status 499.
const (
	ClientGone       = "client_gone"
	statusClientGone = 499
)

// Series returns a series. Its log lines have the method, unless that is "". Series of one id share their metrics.
func (o *Observer) Series(id, method string) *Series {
	log := o.AccessLog.With("operation", id)
	if method != "" {
		log = log.With("method", method)
	}
	s := &Series{
		ID:       id,
		method:   method,
		log:      log.Handler(),
		duration: o.duration.WithLabelValues(id),
		requests: o.requests.MustCurryWith(prometheus.Labels{"operation": id}),
	}
	s.Expect(o.AlwaysCounted...)
	return s
}

// Expect counts these kinds from 0 on.
func (s *Series) Expect(kinds ...Kind) {
	for _, kind := range kinds {
		s.counter(kind)
	}
}

func (s *Series) counter(kind Kind) prometheus.Counter {
	return s.requests.WithLabelValues(strconv.Itoa(kind.Status), kind.Code)
}

// Record counts and logs a response with its number of bytes.
func (o *Observer) Record(req *Request, status int, bytes int64) {
	s, took := req.Series, time.Since(req.begun)
	if req.Code == ClientGone && status >= http.StatusInternalServerError {
		status = statusClientGone
	}
	s.counter(Kind{status, req.Code}).Inc()
	s.duration.Observe((took - req.NewsWait).Seconds())
	if ctx := context.Background(); o.leavesLine(status, req.Code) && s.log.Enabled(ctx, slog.LevelInfo) {
		s.log.Handle(ctx, req.line(status, bytes, took))
	}
}

// leavesLine selects failed and unfinished requests, and one in LogEvery of the others.
func (o *Observer) leavesLine(status int, code string) bool {
	if status >= http.StatusBadRequest || code != "" || o.LogEvery == 1 {
		return true
	}
	return o.LogEvery > 0 && o.unlogged.Add(1)%o.LogEvery == 1
}
