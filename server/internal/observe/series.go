package observe

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Series is what a request is counted and logged as: an operation of the contract, a page, or what fits neither. What its requests
// have in common is made once, so that their log line and metrics cost each of them next to nothing.
type Series struct {
	// ID is the operationId, or a name of the same kind.
	ID string

	method   string // "" for any
	log      slog.Handler
	duration prometheus.Observer
	requests *prometheus.CounterVec // by status and code
}

// Kind is what responses are counted by: the status, and the code of the error that they are, "" for none.
type Kind struct {
	Status int
	Code   string
}

// ClientGone is the code of a request whose client hung up before the response, which nobody gets. statusClientGone is
// the status that it is counted and logged with, as proxies do: it is no error of the service.
const (
	ClientGone       = "client_gone"
	statusClientGone = 499
)

// Series returns a series, whose log lines have the method unless it is "". Those of one id have the same metrics.
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

// Expect has responses of these kinds counted from 0 on.
func (s *Series) Expect(kinds ...Kind) {
	for _, kind := range kinds {
		s.counter(kind)
	}
}

// counter returns the counter of a kind of response, which is there from the first call on.
func (s *Series) counter(kind Kind) prometheus.Counter {
	return s.requests.WithLabelValues(strconv.Itoa(kind.Status), kind.Code)
}

// Record counts the response to a request, which has so many bytes, and logs it.
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

// leavesLine decides which requests the log has: those that failed or were not answered to their end, and of the others one
// in LogEvery.
func (o *Observer) leavesLine(status int, code string) bool {
	if status >= http.StatusBadRequest || code != "" || o.LogEvery == 1 {
		return true
	}
	return o.LogEvery > 0 && o.unlogged.Add(1)%o.LogEvery == 1
}
