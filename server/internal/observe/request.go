package observe

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"worldevents/models"
)

// Request is what log and metrics say of a request.
type Request struct {
	// HTTP is the request itself. Its head is gone after Forget.
	HTTP *http.Request
	// ID is a random UUID (RFC 9562 section 5.4), which the response has in X-Request-Id.
	ID string
	// Series is what the request is counted and logged as.
	Series *Series
	// Code is that of the error that the response is, "" for none.
	Code string
	// The ids of whom and what the request is about, "" where there is none.
	UserID, WorldID, EventID string
	// Usage is what the request took of the database.
	Usage models.Usage
	// NewsWait is for how long it waited for news of a list, QueueWait for its turn, ClientWait for a client that reads slowly.
	NewsWait, QueueWait, ClientWait time.Duration

	observer *Observer
	begun    time.Time
	client   string // the address, once it is known
	head     *head  // what the log says of the head, once that is forgotten
}

// ContextKey is the key of a context's value, a *Request.
type ContextKey struct{}

// FromContext returns the Request of a context. It is nil for what no request has begun, as a command.
func FromContext(ctx context.Context) *Request {
	req, _ := ctx.Value(ContextKey{}).(*Request)
	return req
}

// Begin begins to observe a request, which is one of series until more is known. HTTP is yet to be set.
func (o *Observer) Begin(req *Request, series *Series) {
	*req = Request{ID: uuid.NewString(), Series: series, observer: o, begun: time.Now()}
}

// SetUser has the log name a user, unless the JWT of another issuer calls them by no id of ours.
func (req *Request) SetUser(id string) {
	const idLength = 36
	if len(id) == idLength {
		req.UserID = id
	}
}

// Forget drops the head of the request, up to 16 KB, but for what its log line needs: the request is about to wait for long.
func (req *Request) Forget() {
	h := req.newHead()
	req.head = &head{strings.Clone(h.path), strings.Clone(h.traceID), strings.Clone(h.proxyRequestID)}
	req.client = strings.Clone(req.Client())
	clear(req.HTTP.Header) // net/http has the same map
}
