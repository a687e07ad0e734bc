package server

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// operation is what a request is counted and logged as. What its requests have in common is made once, so that their
// log line and metrics cost each of them next to nothing.
type operation struct {
	id       string // the contract's operationId, "" for all that is no operation
	method   string // "" for any
	log      slog.Handler
	duration prometheus.Observer
	requests *prometheus.CounterVec
}

// newOperation is called once for each.
func (s *Server) newOperation(id, method string) *operation {
	label, log := id, s.access.With("operation", id)
	if id == "" {
		label = "other"
	} else {
		log = log.With("method", method)
	}
	return &operation{
		id:       id,
		method:   method,
		log:      log.Handler(),
		duration: s.metrics.duration.WithLabelValues(label),
		requests: s.metrics.requests.MustCurryWith(prometheus.Labels{"operation": label}),
	}
}

// middleware makes a request one of the operation.
func (o *operation) middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		requestFrom(c.Request().Context()).operation = o
		return next(c)
	}
}

// record counts a response and logs it.
func (o *operation) record(c echo.Context, req *request, begin time.Time) {
	now := time.Now()
	took := now.Sub(begin)
	status := c.Response().Status
	o.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	o.duration.Observe((took - req.waited).Seconds())
	if ctx := context.Background(); o.log.Enabled(ctx, slog.LevelInfo) {
		line := slog.NewRecord(now, slog.LevelInfo, "request", 0)
		line.AddAttrs( // more than five would be allocated
			slog.String("request_id", req.requestID),
			slog.Int("status", status),
			slog.Duration("duration", took),
			slog.Int64("bytes", c.Response().Size),
			slog.String("client", c.RealIP()),
		)
		if o.method == "" {
			line.AddAttrs(slog.String("method", req.request.Method))
		}
		if req.waited > 0 {
			line.AddAttrs(slog.Duration("waited", req.waited))
		}
		o.log.Handle(ctx, line)
	}
}
