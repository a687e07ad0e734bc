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

// request is what one request carries from middleware to handler. It is the request's context: strict handlers see
// nothing else.
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
	// storeDeadline bounds all calls of the store together. It is set once the request has been read.
	storeDeadline time.Time
}

type requestKey struct{}

// Value finds the request itself, what is logged of it, and what the store wants to know of it.
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

// before is the middleware of a rule, which a request meets before what comes next. An error of the rule is the response.
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

// closeAfter closes the connection after a response whose request has not been read: else net/http would wait for the rest of it
// before it writes the response.
func closeAfter(c echo.Context) { c.Response().Header().Set("Connection", "close") }

// responseWriter is what every response passes last.
type responseWriter struct {
	inflight.Writer
	readiness *observe.Readiness
	dropped   int64 // bytes that the handler wrote and the response does not have
}

// WriteHeader closes the connection after a response that is written while the instance is being drained, also when its
// request came before.
func (w *responseWriter) WriteHeader(status int) {
	if w.readiness.IsDraining() {
		w.Header().Set("Connection", "close")
	}
	w.Writer.WriteHeader(status)
}

// Write drops the line feed that generated code ends a JSON body with: the contract's bodies are exact.
func (w *responseWriter) Write(b []byte) (int, error) {
	if n := len(b); n > 0 && b[n-1] == '\n' && w.Header().Get("Content-Type") == "application/json" {
		_, err := w.Writer.Write(b[:n-1])
		w.dropped++
		return n, err
	}
	return w.Writer.Write(b)
}
