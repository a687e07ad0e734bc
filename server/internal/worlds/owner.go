// Package worlds asks the system that owns the worlds who may come in. Equal questions that come together are one, and answers are kept.
// Without an answer nobody comes in, unless the owner lets its last yes outlive a failure (stale-if-error, RFC 5861 section 4).
//
//	GET {url}?world=…&user=…&subject=…&action=list|create|join  -->  2xx: yes   401, 403, 404: no   anything else: unknown
package worlds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"worldevents/models"
	"worldevents/server/internal/inflight"
	"worldevents/server/internal/ledger"
)

const (
	// askTimeout bounds the wait for a turn to ask, and that for the answer.
	askTimeout = 2 * time.Second
	// maxAsking bounds the questions at the owner, and maxQueue those that wait for their turn, an eighth of one user.
	maxAsking = 64
	maxQueue  = 1 << 14
	// maxAnswer bounds an answer, in bytes, and maxKept the kept ones.
	maxAnswer = 64 << 10
	maxKept   = 100_000
)

var (
	// ErrForbidden is the owner's no.
	ErrForbidden = errors.New("the owner of the world keeps the user out")
	// ErrUnknown means that the owner did not answer.
	ErrUnknown = errors.New("the owner of the worlds did not answer")
)

// Owner is the system that owns the worlds. Its methods may be called concurrently.
type Owner struct {
	url       url.URL
	token     atomic.Pointer[string]
	find      func(context.Context, models.Caller) (models.User, error)
	now       func() time.Time
	client    *http.Client
	places    *ledger.Ledger[models.ID] // by user
	asking    singleflight.Group
	kept      *lru.Cache[question, answer]
	questions *prometheus.HistogramVec // by answer
}

type question struct {
	user          models.ID
	world, action string
}

// New returns the owner at a URL, without a request to it. find returns a caller's user, or models.ErrSignedOut; now is the clock.
func New(at url.URL, find func(context.Context, models.Caller) (models.User, error), now func() time.Time) *Owner {
	o := &Owner{
		url: at, find: find, now: now,
		places: ledger.NewQueue[models.ID](ledger.Eighth(maxAsking), ledger.Eighth(maxQueue)),
		questions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "worldevents_world_questions_seconds",
			Help:    "Time of a question to the owner of the worlds, with the wait for its turn, by the answer: yes, no, unknown, stale (the last yes instead).",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 4},
		}, []string{"answer"}),
	}
	for _, answer := range []string{"yes", "no", "unknown", "stale"} {
		o.questions.WithLabelValues(answer)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxAsking
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it could lead the token elsewhere
	o.client = &http.Client{Transport: transport, Timeout: askTimeout, CheckRedirect: noRedirect}
	o.kept, _ = lru.New[question, answer](maxKept) // fails only for a size below 1
	return o
}

// SetToken sets the token for later questions (RFC 6750 section 2.1); "" means none.
func (o *Owner) SetToken(token string) { o.token.Store(&token) }

// Metrics are the durations, and gauges by their label.
func (o *Owner) Metrics() (prometheus.Collector, map[string]func() int) {
	return o.questions, map[string]func() int{"world_questions": o.places.Held, "world_answers": o.kept.Len}
}

// Allow returns nil if the caller may list, create or join in a world, which action says. Otherwise it returns ErrForbidden, ErrUnknown,
// models.ErrSignedOut, or an error of the store.
func (o *Owner) Allow(ctx context.Context, caller models.Caller, world, action string) error {
	q := question{caller.UserID, world, action}
	if a, ok := o.kept.Get(q); ok && o.now().Before(a.until) {
		return a.err
	}
	user, err := o.find(ctx, caller)
	if err != nil {
		return err
	}
	defer inflight.FromContext(ctx).Queue()()
	q.world = strings.Clone(world) // without the request
	asked := o.asking.DoChan(fmt.Sprintf("%s %s %s", q.user, action, world), func() (any, error) { return nil, o.ask(q, user) })
	select {
	case answer := <-asked:
		return answer.Err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// ask keeps the owner's answer and returns its error. It goes on without the callers.
func (o *Owner) ask(q question, user models.User) error {
	begin, label := time.Now(), "yes"
	a, err := o.request(q, user)
	old, _ := o.kept.Get(q)
	left := old.stale.Sub(o.now())
	switch {
	case err == nil && a.err != nil:
		label = "no"
	case err != nil && left > 0:
		a, label = answer{until: o.now().Add(min(left, noTTL)), stale: old.stale}, "stale" // the owner is not asked again at once
	case err != nil:
		a.err, label = fmt.Errorf("%w: %w", ErrUnknown, err), "unknown"
	}
	if label != "unknown" {
		o.kept.Add(q, a)
	}
	o.questions.WithLabelValues(label).Observe(time.Since(begin).Seconds())
	return a.err
}

// request asks at its turn. Its errors do not have the question, with the user's name.
func (o *Owner) request(q question, user models.User) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := o.places.Acquire(ctx, q.user); err != nil {
		return answer{}, err
	}
	defer o.places.Release(q.user, 1)
	target, asked := o.url, o.url.Query()
	for name, value := range map[string]string{"world": q.world, "user": q.user.String(), "action": q.action} {
		asked.Set(name, value)
	}
	if user.Subject != nil {
		asked.Set("subject", *user.Subject)
	} else {
		asked.Set("username", user.Username)
	}
	target.RawQuery = asked.Encode()
	r := &http.Request{Method: http.MethodGet, URL: &target, Header: make(http.Header)}
	if token := o.token.Load(); token != nil && *token != "" {
		r.Header.Set("Authorization", "Bearer "+*token)
	}
	res, err := o.client.Do(r)
	if of, ok := errors.AsType[*url.Error](err); ok {
		return answer{}, of.Err
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer+1)); err != nil || n > maxAnswer {
		return answer{}, fmt.Errorf("an answer that is broken, or larger than %d bytes", maxAnswer)
	}
	return readAnswer(res, o.now())
}

// Check asks for a user and a world that do not exist, and reports whether the user is let in. It returns an error without an answer.
func (o *Owner) Check() (allowed bool, err error) {
	a, err := o.request(question{models.ID{1}, "worldevents check", "list"}, models.User{Username: "worldevents check"})
	return a.err == nil, err
}
