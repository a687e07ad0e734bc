package server

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// operation is what a request is counted and logged as. What its requests have in common is made once, so that their
// log line and metrics cost each of them next to nothing.
type operation struct {
	id       string // of the contract, or of the same kind
	method   string // "" for any
	log      slog.Handler
	duration prometheus.Observer
	requests *prometheus.CounterVec // by status and code
}

// responseKind is what responses are counted by: the status, and the code of the error that they are, "" for none.
type responseKind struct {
	status int
	code   string
}

// clientGone is the code of a request whose client hung up before the response, which nobody gets. statusClientGone is
// the status that it is counted and logged with, as proxies do: it is no error of the service.
const (
	clientGone       = "client_gone"
	statusClientGone = 499
)

// newOperation returns an operation. Those of one id have the same metrics. Errors of the service are counted from 0 on, so
// that the first of them is an increase, and so are the kinds of expected.
func (s *Server) newOperation(id, method string, expected ...responseKind) *operation {
	log := s.access.With("operation", id)
	if method != "" {
		log = log.With("method", method)
	}
	o := &operation{
		id:       id,
		method:   method,
		log:      log.Handler(),
		duration: s.metrics.duration.WithLabelValues(id),
		requests: s.metrics.requests.MustCurryWith(prometheus.Labels{"operation": id}),
	}
	for _, p := range []*problem{errInternal, errOverloaded} {
		expected = append(expected, responseKind{p.status, p.code})
	}
	for _, kind := range expected {
		o.counter(kind)
	}
	return o
}

// middleware makes a request one of the operation.
func (o *operation) middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		requestFrom(c.Request().Context()).operation = o
		return next(c)
	}
}

// counter returns the counter of a kind of response, which is there from the first call on.
func (o *operation) counter(kind responseKind) prometheus.Counter {
	return o.requests.WithLabelValues(strconv.Itoa(kind.status), kind.code)
}

// record counts a response and logs it.
func (s *Server) record(c echo.Context, req *request, begin time.Time) {
	o, now := req.operation, time.Now()
	took := now.Sub(begin)
	status := c.Response().Status
	if req.code == clientGone && status >= http.StatusInternalServerError {
		status = statusClientGone
	}
	o.counter(responseKind{status, req.code}).Inc()
	o.duration.Observe((took - req.newsWait).Seconds())
	if ctx := context.Background(); s.leavesLine(status, req.code) && o.log.Enabled(ctx, slog.LevelInfo) {
		line := slog.NewRecord(now, slog.LevelInfo, "request", 0)
		var fields [maxAttributes]slog.Attr // on the stack
		line.AddAttrs(s.requestAttributes(fields[:0], c, req, status, took)...)
		o.log.Handle(ctx, line)
	}
}

// leavesLine decides which requests the log has: those that failed or were not answered to their end, and of the others one
// in logEvery.
func (s *Server) leavesLine(status int, code string) bool {
	if status >= http.StatusBadRequest || code != "" || s.logEvery == 1 {
		return true
	}
	return s.logEvery > 0 && s.fine.Add(1)%s.logEvery == 1
}
