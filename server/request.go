package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"worldevents/models"
)

// request is what one request carries from middleware to handler. It is the request's context: strict handlers see
// nothing else.
type request struct {
	context.Context
	requestID string
	// storeDeadline bounds all calls of the store together. It is set once the request has been read.
	storeDeadline time.Time
	operation     *operation
	code          string        // of the error that the response is, "" for none
	caller        models.Caller // set by requireAuth
	expires       time.Time     // when the caller's JWT does
	signedIn      bool          // the request has begun a session
	waited        time.Duration // for news of a list
	request       *http.Request
	header        http.Header // of the response

	errorPage string // the template that shows an error to a person; "" for JSON
	returnTo  string // where a sign-in leads
}

type requestKey struct{}

// Value finds the call itself, and what the store wants to know of it.
func (c *request) Value(key any) any {
	switch key {
	case requestKey{}:
		return c
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

// newRequestID makes a random UUID (RFC 9562 section 5.4).
func newRequestID() string { return uuid.NewString() }

// responseWriter is what every response passes last.
type responseWriter struct {
	http.ResponseWriter
	draining *atomic.Bool
}

// WriteHeader closes the connection after a response that is written while the instance is being drained, also when its
// request came before.
func (w responseWriter) WriteHeader(status int) {
	if w.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write drops the line feed that generated code ends a JSON body with: the contract's bodies are exact.
func (w responseWriter) Write(b []byte) (int, error) {
	if n := len(b); n > 0 && b[n-1] == '\n' && w.Header().Get("Content-Type") == "application/json" {
		_, err := w.ResponseWriter.Write(b[:n-1])
		return n, err
	}
	return w.ResponseWriter.Write(b)
}

func (w responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
