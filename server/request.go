package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"worldevents/models"
	"worldevents/server/internal/backpressure"
	"worldevents/server/internal/session"
)

// request is what one request carries from middleware to handler. It is the request's context: strict handlers see
// nothing else.
type request struct {
	context.Context
	requestID string
	idLine    [1]string // of the header X-Request-Id
	writer    responseWriter
	// storeDeadline bounds all calls of the store together. It is set once the request has been read.
	storeDeadline time.Time
	operation     *operation
	code          string        // of the error that the response is, "" for none
	caller        models.Caller // set by requireAuth
	expires       time.Time     // when the caller's JWT does
	signedIn      bool          // the request has begun a session
	request       *http.Request
	client        string           // the address, once it is known
	head          *loggedHead      // what the log says of the head, once that is known
	route         echo.HandlerFunc // what comes after the middleware
	header        http.Header      // of the response

	// What the log says of the request. The ids are "" where there is none.
	userID, worldID, eventID string
	usage                    models.Usage
	newsWait                 time.Duration // for news of a list
	turnWait                 time.Duration // for a turn to look at a list that it watches
	connection               backpressure.Request
	dropped                  int64 // bytes that the handler wrote and the response does not have

	errorPage string // the template that shows an error to a person; "" for JSON
	returnTo  string // where a sign-in leads
}

type requestKey struct{}

// Value finds the call itself, and what the store wants to know of it.
func (c *request) Value(key any) any {
	switch key {
	case requestKey{}:
		return c
	case models.UsageKey{}:
		return &c.usage
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

// setUser has the log name a user, unless the JWT of another issuer calls them by no id of ours.
func (c *request) setUser(user session.Session) {
	const idLength = 36
	if len(user.UserID) == idLength {
		c.userID = user.UserID
	}
}

// newRequestID makes a random UUID (RFC 9562 section 5.4).
func newRequestID() string { return uuid.NewString() }

// responseWriter is what every response passes last.
type responseWriter struct {
	http.ResponseWriter
	draining *atomic.Bool
	req      *request
}

// WriteHeader closes the connection after a response that is written while the instance is being drained, also when its
// request came before.
func (w *responseWriter) WriteHeader(status int) {
	if w.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write drops the line feed that generated code ends a JSON body with: the contract's bodies are exact.
func (w *responseWriter) Write(b []byte) (int, error) {
	if n := len(b); n > 0 && b[n-1] == '\n' && w.Header().Get("Content-Type") == "application/json" {
		_, err := w.ResponseWriter.Write(b[:n-1])
		w.req.dropped++
		return n, err
	}
	return w.ResponseWriter.Write(b)
}

func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
