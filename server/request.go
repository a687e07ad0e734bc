package server

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/inflight"
	"worldevents/server/internal/observe"
)

// request is a request's context, the only thing that strict handlers see. It carries the results of middleware.
type request struct {
	context.Context
	observe.Request
	place  inflight.Place
	writer responseWriter
	header http.Header      // of the response
	idLine [1]string        // of the header X-Request-Id
	next   echo.HandlerFunc // what comes after the middleware

	caller  models.Caller // set by requireAuth
	expires time.Time     // when the caller's JWT does
	asked   *string       // the world that its owner was asked about; nil without an owner
	// storeDeadline bounds all store calls together, from when the request has been read.
	storeDeadline time.Time
}

type requestKey struct{}

// Value returns the request itself and its values for other packages.
func (c *request) Value(key any) any {
	switch key {
	case requestKey{}:
		return c
	case observe.ContextKey{}:
		return &c.Request
	case inflight.ContextKey{}:
		return &c.place
	case models.UsageKey{}:
		return &c.Usage
	case models.Deadline{}:
		if !c.storeDeadline.IsZero() {
			return c.storeDeadline
		}
	}
	return c.Context.Value(key)
}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// before makes middleware of a rule, whose error ends the request.
func before(rule func(c echo.Context) error) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := rule(c); err != nil {
				return err
			}
			return next(c)
		}
	}
}

// closeAfter closes the connection after the response to an unread request: net/http would first wait for the rest of it.
func closeAfter(c echo.Context) { c.Response().Header().Set("Connection", "close") }

type responseWriter struct {
	inflight.Writer
	readiness *observe.Readiness
	dropped   int64 // bytes that Write left out
}

// WriteHeader closes the connection after a response during the drain.
func (w *responseWriter) WriteHeader(status int) {
	if w.readiness.IsDraining() {
		w.Header().Set("Connection", "close")
	}
	w.Writer.WriteHeader(status)
}

// Write drops the line feed after the generated code's JSON: the contract's bodies are exact.
func (w *responseWriter) Write(b []byte) (int, error) {
	if n := len(b); n > 0 && b[n-1] == '\n' && w.Header().Get("Content-Type") == "application/json" {
		_, err := w.Writer.Write(b[:n-1])
		w.dropped++
		return n, err
	}
	return w.Writer.Write(b)
}
