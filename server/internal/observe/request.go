package observe

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"worldevents/models"
)

// Request is a request in the log and metrics.
type Request struct {
	// HTTP loses its head in Forget.
	HTTP *http.Request
	// ID is a random UUID (RFC 9562 section 5.4), sent in X-Request-Id.
	ID     string
	Series *Series
	// Code is the code of an error response, or "".
	Code                     string
	UserID, WorldID, EventID string       // "" where there is none
	Usage                    models.Usage // of the database
	// NewsWait is the wait for news of a list, QueueWait for turns, ClientWait for a slow client.
	NewsWait, QueueWait, ClientWait time.Duration

	observer *Observer
	begun    time.Time
	client   string // the address, once known
	head     *head  // after Forget
}

// ContextKey is the key of the *Request in a context.
type ContextKey struct{}

// FromContext returns the Request of a context, or nil, as for a command.
func FromContext(ctx context.Context) *Request {
	req, _ := ctx.Value(ContextKey{}).(*Request)
	return req
}

// Begin begins to observe a request. The caller sets HTTP, and Series once it is known.
func (o *Observer) Begin(req *Request, series *Series) {
	*req = Request{ID: uuid.NewString(), Series: series, observer: o, begun: time.Now()}
}

// SetUser sets the user of the log line, except an id of another issuer's JWT that is none of ours.
func (req *Request) SetUser(id string) {
	const idLength = 36
	if len(id) == idLength {
		req.UserID = id
	}
}

// Forget drops the head of the request, up to 16 KB, before a long wait. It keeps the parts for the log line.
func (req *Request) Forget() {
	h := req.newHead()
	req.head = &head{strings.Clone(h.path), strings.Clone(h.traceID)}
	req.client = strings.Clone(req.Client())
	clear(req.HTTP.Header) // net/http has the same map
}
